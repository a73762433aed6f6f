// A stub for host code: kernels, which use this header's contents, are compiled by the emulator. The types are those
// that a device function's parameters, or a member of a structure, can have.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include "../../../emulator/include/ww/wmma_types.h"

namespace nvcuda {
namespace wmma {
template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {};
}  // namespace wmma
}  // namespace nvcuda
