// <stddef.h> for NVRTC: size_t, ptrdiff_t and offsetof, from libcu++.
#pragma once

#include <cuda/std/cstddef>
