// A stub for host code: kernels, which use this header's contents, are compiled by the emulator.
#pragma once
#include <cuda_runtime.h>

typedef uint64_t __mbarrier_t;
typedef uint64_t __mbarrier_token_t;
inline constexpr uint32_t __mbarrier_maximum_count() { return (1u << 20) - 1; }
