// Part of the device language, which is included before every kernel source.
#pragma once
#include <warpwise_device.h>
