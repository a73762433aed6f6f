// <stdint.h> for NVRTC: fixed-width integer types, from libcu++.
#pragma once

#include <cuda/std/cstdint>
