// Tensor cores by the wmma API: warps multiply 16 x 16 fragments that wmma loads from tiles in shared memory.
//
// A warp executes 4096 multiply-adds in one or two instructions, where k08's warp needs 128. The layout of a fragment
// in registers is unspecified, so tiles follow the requirement of wmma: every fragment begins at a multiple of 32
// bytes.

#include <mma.h>
#include <warpwise/core/numeric.cuh>
#include <warpwise/sm80/wmma_tile.cuh>

namespace wmma = nvcuda::wmma;

// Row pitch: 48 bytes for 2-byte elements, so that 16 bytes of each of eight rows cover all 32 banks; 16 bytes for
// int8.
template <class T, int ROWS, int COLUMNS>
using Tile = warpwise::WmmaTile<T, ROWS, COLUMNS, 16, sizeof(T) == 2 ? 24 : 16>;

// a: (m, k), b: (k, n), c: (m, n), row-major. ALIGNED: rows of a and b are 16-byte aligned and multiples of 16 bytes.
// BM x BN: block tile; BK: k-tile; WM x WN: warp tile. Grid: (cdiv(n, BN), cdiv(m, BM)) blocks of THREADS.
template <class T, class Sum, class Out, int BM, int BN, int BK, int WM, int WN, bool ALIGNED,
          int THREADS = (BM / WM) * (BN / WN) * 32>
__global__ void __launch_bounds__(THREADS) matmul_wmma(const T* __restrict__ a, const T* __restrict__ b,
                                                       Out* __restrict__ c, int m, int n, int k) {
  using A = Tile<T, BM, BK>;
  using B = Tile<T, BK, BN>;
  __shared__ __align__(32) A a_tile;
  __shared__ __align__(32) B b_tile;
  __shared__ __align__(32) Sum staging[THREADS / 32][16 * 16];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = blockIdx.y * BM, first_column = blockIdx.x * BN;
  const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;

  wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> sums[WM / 16][WN / 16];
#pragma unroll
  for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < WN / 16; ++j) wmma::fill_fragment(sums[i][j], Sum(0));
  }

  for (int first = 0; first < k; first += BK) {
    a_tile.template fill<THREADS, ALIGNED>(a + static_cast<long long>(first_row) * k + first, k, m - first_row,
                                           k - first);
    b_tile.template fill<THREADS, ALIGNED>(b + static_cast<long long>(first) * n + first_column, n, k - first,
                                           n - first_column);
    __syncthreads();
#pragma unroll
    for (int k_step = 0; k_step < BK; k_step += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a_fragments[WM / 16];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> b_fragments[WN / 16];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
        wmma::load_matrix_sync(a_fragments[i], a_tile.at[k_step / 16] + (row + i * 16) * A::kPitch, A::kPitch);
#pragma unroll
      for (int j = 0; j < WN / 16; ++j)
        wmma::load_matrix_sync(b_fragments[j], b_tile.at[column / 16 + j] + k_step * B::kPitch, B::kPitch);
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
        if (c_row < m && c_column < n)
          c[static_cast<long long>(c_row) * n + c_column] = warpwise::from_accumulator<Out>(staging[warp][e]);
      }
      __syncwarp();
    }
  }
}
