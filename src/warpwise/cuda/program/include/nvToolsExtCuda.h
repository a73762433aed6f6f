// NVTX for programs on a CPU.
#pragma once
#include <nvToolsExt.h>
