// The states of cuRAND's device API for host code: the emulator's. Device code draws the numbers.
#pragma once
#include <curand.h>

#include "../../emulator/include/ww/curand_states.h"
