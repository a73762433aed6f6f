// Forwards to warpwise_device.h, which declares the device language and is included before every kernel source.
#pragma once
#include <warpwise_device.h>

#include "ww/tensor_map_object.h"
