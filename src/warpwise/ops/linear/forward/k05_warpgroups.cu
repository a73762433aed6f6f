// Hopper by hand: products by warpgroups, sums finished by few instructions, tiles stored under products.
//
// A power and a reciprocal an element, 16 a clock and SM, are 4096 clocks beside the 65536 of a tile's products at
// K = 4096. Hiding them under products gained nothing on an H200, whose clock follows the power drawn; fewer
// instructions do: gelu_tanh takes one reciprocal for two values. A finished tile leaves under the products of the
// next.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/sm90/gemm_epilogue.cuh>

namespace sm90 = warpwise::sm90;

// x: (m, k), or across (k, m); w: (n, k), or across (k, n); y, residual, before: (m, n), as maps with boxes of 64 x 64.
// y = activate(scale * x w^T + bias) + residual. rows, columns, group: of `TileScheduler`; the other parameters: of
// `GemmConfig` and `gemm_epilogue`, which also say grid, block and shared memory.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool X_MN_MAJOR, bool W_MN_MAJOR,
          int ACTIVATION, bool RESIDUAL, bool KEEP>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) __cluster_dims__(CM* CN, 1, 1)
    linear_warpgroups(const __grid_constant__ sm90::TensorMap x, const __grid_constant__ sm90::TensorMap w,
                      const __grid_constant__ sm90::TensorMap y, const __grid_constant__ sm90::TensorMap residual,
                      const __grid_constant__ sm90::TensorMap before, const T* bias, const T* scale, int m, int n,
                      int k, int rows, int columns, int group) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, CM, CN, X_MN_MAJOR, W_MN_MAJOR>;
  sm90::gemm_epilogue<P, ACTIVATION, RESIDUAL, KEEP>({&x, &w, &y, &residual, &before}, {bias, scale, 1.0f, 1.0f, 1.0f},
                                                     m, n, k, sm90::TileScheduler{rows, columns, group});
}
