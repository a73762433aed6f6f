// A stub for host code: kernels, which use this header's contents, are compiled by the emulator.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace nvcuda {
namespace wmma {}
}  // namespace nvcuda
