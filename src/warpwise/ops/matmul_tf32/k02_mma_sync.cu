// TF32 by mma.sync for Ampere: a cp.async pipeline, fragments loaded one step ahead, two blocks per SM.
//
// Tensor cores support TF32, the upper 19 bits of a float32. The definition of the operation rounds each element (to
// nearest, ties away from zero); the hardware would truncate the lower 13 bits.
//
// A float is as wide as a pair of 2-byte elements, so ldmatrix loads K-major operands; it cannot transpose 4-byte
// elements. Fragments of an MN-major operand, such as a row-major B, are loaded four floats at a time: the four belong
// to four groups of columns, and the columns of a group are four apart. The sums of a lane are then adjacent, 16 bytes
// per store.

#include <warpwise/sm80/gemm_mma_sync.cuh>

namespace mma = warpwise::mma;

// Operands, tiles and dynamic shared memory: see mma::gemm. Grid: tiles_m * tiles_n blocks, BLOCKS per SM.
template <int BM, int BN, int WM, int WN, int K_BYTES, int STAGES, int BLOCKS, bool A_K_MAJOR, bool B_K_MAJOR,
          int A_WORD, int B_WORD, bool C_ALIGNED>
__global__ void __launch_bounds__(mma::threads_of(BM, BN, WM, WN), BLOCKS) matmul_mma_sync(
    const float* __restrict__ a, int a_stride, const float* __restrict__ b, int b_stride, float* __restrict__ c, int m,
    int n, int k, int tiles_m, int tiles_n, int group) {
  mma::gemm<false, float, float, BM, BN, WM, WN, K_BYTES, STAGES, A_K_MAJOR, B_K_MAJOR, A_WORD, B_WORD, C_ALIGNED>(
      a, a_stride, b, b_stride, c, m, n, k, tiles_m, tiles_n, group);
}
