// Tensor cores by mma.sync for Ampere: a cp.async pipeline, and ldmatrix without bank conflicts.
//
// wmma hides its register layout, so k14 pads its tiles and alternates between loading and multiplying. Here tiles are
// swizzled in units of 16 bytes, fragments are loaded one k step ahead of mma.sync, and k-tiles of the next tile are
// loaded during the epilogue of this one, which combines sums into 16-byte stores by shuffles, without shared memory
// or a barrier. A transposed operand uses the same code with its lines along the other dimension.

#include <warpwise/sm80/gemm_mma_sync.cuh>

namespace mma = warpwise::mma;

// Operands, tiles and dynamic shared memory: see mma::gemm. Grid: any number of blocks, each of which computes several
// tiles; BLOCKS per SM.
template <class T, class Out, int BM, int BN, int WM, int WN, int K_BYTES, int STAGES, int BLOCKS, bool A_K_MAJOR,
          bool B_K_MAJOR, int A_WORD, int B_WORD, bool C_ALIGNED>
__global__ void __launch_bounds__(mma::threads_of(BM, BN, WM, WN), BLOCKS) matmul_mma_sync(
    const T* __restrict__ a, int a_stride, const T* __restrict__ b, int b_stride, Out* __restrict__ c, int m, int n,
    int k, int tiles_m, int tiles_n, int group) {
  mma::gemm<true, T, Out, BM, BN, WM, WN, K_BYTES, STAGES, A_K_MAJOR, B_K_MAJOR, A_WORD, B_WORD, C_ALIGNED>(
      a, a_stride, b, b_stride, c, m, n, k, tiles_m, tiles_n, group);
}
