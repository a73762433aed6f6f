// A stub for host code: kernels, which use this header's contents, are compiled by the emulator. The types are those
// that a device function's parameters, or a member of a structure, can have.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}  // namespace precision
namespace experimental {
namespace precision {
struct u4 {};
struct s4 {};
struct b1 {};
}  // namespace precision
}  // namespace experimental

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {};
}  // namespace wmma
}  // namespace nvcuda
