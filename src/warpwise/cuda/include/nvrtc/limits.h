// <limits.h> for NVRTC: limits of the integer types, from libcu++.
#pragma once

#include <cuda/std/climits>
