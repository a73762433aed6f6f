// CUB for the emulator.
#pragma once
#include "../block.cuh"
