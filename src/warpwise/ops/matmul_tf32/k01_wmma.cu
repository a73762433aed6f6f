// Tensor cores for float32 by wmma: operands rounded to TF32, 16 x 8 and 8 x 16 fragments of tiles in shared memory.
//
// Tensor cores support TF32, the upper 19 bits of a float32. One wmma is 2048 multiply-adds. The definition of the
// operation rounds each element (to nearest, ties away from zero); the hardware would truncate the lower 13 bits.

#include <mma.h>
#include <warpwise/sm80/wmma_tile.cuh>

namespace wmma = nvcuda::wmma;
using TF32 = wmma::precision::tf32;

// Row pitch: a fragment of A reads 4 adjacent floats of 8 rows, one of B 8 adjacent floats of 4 rows; with pitches of
// 12 and 24 floats these cover all 32 banks.
template <int BM, int BK>
using TileA = warpwise::WmmaTile<float, BM, BK, 8, 12>;
template <int BK, int BN>
using TileB = warpwise::WmmaTile<float, BK, BN, 16, 24>;

template <class Fragment>
__device__ inline void round_to_tf32(Fragment& fragment) {
#pragma unroll
  for (int e = 0; e < fragment.num_elements; ++e) fragment.x[e] = wmma::__float_to_tf32(fragment.x[e]);
}

// a: (m, k), b: (k, n), c: (m, n), row-major. ALIGNED: k and n are multiples of 4, and a and b are 16-byte aligned. BM
// x BN: block tile; BK: k-tile; WM x WN: warp tile. Grid: (cdiv(n, BN), cdiv(m, BM)) blocks of THREADS.
template <int BM, int BN, int BK, int WM, int WN, bool ALIGNED, int THREADS = (BM / WM) * (BN / WN) * 32>
__global__ void __launch_bounds__(THREADS) matmul_wmma(const float* __restrict__ a, const float* __restrict__ b,
                                                       float* __restrict__ c, int m, int n, int k) {
  using A = TileA<BM, BK>;
  using B = TileB<BK, BN>;
  __shared__ __align__(32) A a_tile;
  __shared__ __align__(32) B b_tile;
  __shared__ __align__(32) float staging[THREADS / 32][16 * 16];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = blockIdx.y * BM, first_column = blockIdx.x * BN;
  const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;

  wmma::fragment<wmma::accumulator, 16, 16, 8, float> sums[WM / 16][WN / 16];
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 16; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
  }

  for (int first = 0; first < k; first += BK) {
    a_tile.template fill<THREADS, ALIGNED>(a + static_cast<long long>(first_row) * k + first, k, m - first_row,
                                           k - first);
    b_tile.template fill<THREADS, ALIGNED>(b + static_cast<long long>(first) * n + first_column, n, k - first,
                                           n - first_column);
    __syncthreads();
#pragma unroll
    for (int k_step = 0; k_step < BK; k_step += 8) {
      wmma::fragment<wmma::matrix_a, 16, 16, 8, TF32, wmma::row_major> a_fragments[WM / 16];
      wmma::fragment<wmma::matrix_b, 16, 16, 8, TF32, wmma::row_major> b_fragments[WN / 16];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
        wmma::load_matrix_sync(a_fragments[i], a_tile.at[k_step / 8] + (row + i * 16) * A::kPitch, A::kPitch);
        round_to_tf32(a_fragments[i]);
      }
#pragma unroll
      for (int j = 0; j < WN / 16; ++j) {
        wmma::load_matrix_sync(b_fragments[j], b_tile.at[column / 16 + j] + k_step * B::kPitch, B::kPitch);
        round_to_tf32(b_fragments[j]);
      }
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) wmma::mma_sync(sums[i][j], a_fragments[i], b_fragments[j], sums[i][j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 16; ++j) {
      wmma::store_matrix_sync(staging[warp], sums[i][j], 16, wmma::mem_row_major);
      __syncwarp();
#pragma unroll
      for (int e = lane; e < 16 * 16; e += 32) {
        const int c_row = first_row + row + i * 16 + e / 16, c_column = first_column + column + j * 16 + e % 16;
        if (c_row < m && c_column < n) c[static_cast<long long>(c_row) * n + c_column] = staging[warp][e];
      }
      __syncwarp();
    }
  }
}
