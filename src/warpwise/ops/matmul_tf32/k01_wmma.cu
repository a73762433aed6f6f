// Tensor cores on float32 by wmma: factors rounded to TF32, 16 x 8 and 8 x 16 fragments of tiles in shared memory.
//
// float32 has no tensor cores; TF32, its first 19 bits, has. A product of a warp is 2048 multiply-adds. The definition
// asks for a rounding of each element (to nearest, ties away from zero); the hardware would cut the 13 bits off.

#include <mma.h>
#include <warpwise/sm80/wmma_tile.cuh>

namespace wmma = nvcuda::wmma;
using TF32 = wmma::precision::tf32;

// Lanes of a fragment of A read 4 neighbours in 8 rows, of B 8 neighbours in 4 rows: 12 and 24 floats apart, these fall
// into all 32 banks.
template <int BM, int BK>
using TileA = warpwise::WmmaTile<float, BM, BK, 8, 12>;
template <int BK, int BN>
using TileB = warpwise::WmmaTile<float, BK, BN, 16, 24>;

template <class Fragment>
__device__ inline void round_to_tf32(Fragment& fragment) {
#pragma unroll
  for (int e = 0; e < fragment.num_elements; ++e) fragment.x[e] = wmma::__float_to_tf32(fragment.x[e]);
}

// a: (m, k), b: (k, n), c: (m, n), row-major. ALIGNED: k and n are multiples of 4 and a and b lie on 16 bytes.
// BM x BN: the block's tile; BK: the depth of a slice; WM x WN: a warp's tile.
// Grid: (cdiv(n, BN), cdiv(m, BM)) blocks of THREADS.
template <int BM, int BN, int BK, int WM, int WN, bool ALIGNED, int THREADS = (BM / WM) * (BN / WN) * 32>
__global__ void __launch_bounds__(THREADS) matmul_wmma(const float* __restrict__ a, const float* __restrict__ b,
                                                       float* __restrict__ c, int m, int n, int k) {
  using A = TileA<BM, BK>;
  using B = TileB<BK, BN>;
  __shared__ __align__(32) A a_tile;
  __shared__ __align__(32) B b_tile;
  __shared__ __align__(32) float leaving[THREADS / 32][16 * 16];
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
    for (int depth = 0; depth < BK; depth += 8) {
      wmma::fragment<wmma::matrix_a, 16, 16, 8, TF32, wmma::row_major> a_now[WM / 16];
      wmma::fragment<wmma::matrix_b, 16, 16, 8, TF32, wmma::row_major> b_now[WN / 16];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
        wmma::load_matrix_sync(a_now[i], a_tile.at[depth / 8] + (row + i * 16) * A::kPitch, A::kPitch);
        round_to_tf32(a_now[i]);
      }
#pragma unroll
      for (int j = 0; j < WN / 16; ++j) {
        wmma::load_matrix_sync(b_now[j], b_tile.at[column / 16 + j] + depth * B::kPitch, B::kPitch);
        round_to_tf32(b_now[j]);
      }
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) wmma::mma_sync(sums[i][j], a_now[i], b_now[j], sums[i][j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 16; ++j) {
      wmma::store_matrix_sync(leaving[warp], sums[i][j], 16, wmma::mem_row_major);
      __syncwarp();
#pragma unroll
      for (int e = lane; e < 16 * 16; e += 32) {
        const int c_row = first_row + row + i * 16 + e / 16, c_column = first_column + column + j * 16 + e % 16;
        if (c_row < m && c_column < n) c[static_cast<long long>(c_row) * n + c_column] = leaving[warp][e];
      }
      __syncwarp();
    }
  }
}
