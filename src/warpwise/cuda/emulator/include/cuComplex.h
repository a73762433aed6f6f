// cuComplex.h for the emulator.
#pragma once
#include <warpwise_device.h>
#include "ww/complex.h"
