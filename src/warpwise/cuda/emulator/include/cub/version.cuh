// CUB for the emulator: its version.
#pragma once
#include "../ww/cub_algorithms.h"
