// A few rows of A, any dtype: B is loaded from global memory to registers; each element is used for all rows of A.
//
// A tile of 64 or 128 rows would mostly multiply zeros, and tiles of few rows are limited by shared memory. Here a
// thread accumulates ROWS rows and a few columns; B is read once, by loads of 4 elements in either layout, and rows of
// A are in shared memory. Blocks split K, and the last block of a tile reduces the partial sums in a fixed order.

#include <warpwise/core/pack.cuh>
#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/words.cuh>

constexpr int kThreads = 256, kWarps = kThreads / 32;

// A tile of c: (m, n): rows x columns elements from (first_row, first_column) on.
struct Tile {
  int first_row, first_column, rows, columns;
};

// Called after all threads have stored the sums of their split. The last of `splits` blocks reduces the tile of c.
template <class T>
__device__ inline void split_k_reduce(T* c, const float* partials, int* semaphore, int splits, int m, int n,
                                      Tile tile) {
  if (splits == 1 || !warpwise::is_last_block(semaphore, splits)) return;
  for (int i = threadIdx.x; i < tile.rows * tile.columns; i += kThreads) {
    const long long index =
        static_cast<long long>(tile.first_row + i / tile.columns) * n + tile.first_column + i % tile.columns;
    float sum = 0.0f;
#pragma unroll 8
    for (int split = 0; split < splits; ++split)
      sum += __ldcg(partials + static_cast<long long>(split) * m * n + index);
    c[index] = warpwise::from_float<T>(sum);
  }
}

template <class T>
__device__ inline void store_sum(T* c, float* partials, int splits, int split, int m, int n, long long index,
                                 float sum) {
  if (splits == 1)
    c[index] = warpwise::from_float<T>(sum);
  else
    partials[static_cast<long long>(split) * m * n + index] = sum;
}

// a: (m, k) and b: (k, n), with row strides a_stride and b_stride in elements; c: (m, n). The lanes of a warp compute
// adjacent columns, BYTES of b each; the warps of a block, and `splits` blocks, different rows of b. partials:
// (splits, m, n); semaphores: one per tile. BYTES: 4 elements if n, b_stride and the address of b are multiples of
// that, else one. Grid: cdiv(m, ROWS) * cdiv(n, 32 * BYTES / sizeof(T)) * splits blocks of kThreads.
template <class T, int ROWS, int BYTES>
__global__ void __launch_bounds__(kThreads, 2) matmul_few_rows(const T* __restrict__ a, const T* __restrict__ b, T* c,
                                                               float* partials, int* semaphores, int m, int n, int k,
                                                               long long a_stride, long long b_stride, int tiles_m,
                                                               int splits) {
  using Pack = warpwise::Pack<T, BYTES>;
  using Loaded = warpwise::Loaded<(ROWS > 8), T, BYTES>;  // with up to 8 rows, elements often take fewer registers
  constexpr int kSize = Pack::size, kColumns = 32 * kSize, kRowsPerWarp = ROWS > 8 ? 4 : 8,
                kTileK = kRowsPerWarp * kWarps;
  constexpr int kStride = ROWS % 4 ? ROWS : ROWS + 4;  // floats per k: fewer bank conflicts when the k-tile is stored
  __shared__ __align__(16) float a_tiles[2][kTileK][kStride];
  __shared__ float warp_sums[kWarps][kColumns];
  const int split = blockIdx.x % splits, tile_index = blockIdx.x / splits, warp = threadIdx.x / 32,
            lane = threadIdx.x % 32;
  const int first_row = tile_index % tiles_m * ROWS, first_column = tile_index / tiles_m * kColumns;
  const Tile tile{first_row, first_column, min(ROWS, m - first_row), min(kColumns, n - first_column)};
  const bool valid_columns = lane * kSize < tile.columns;  // if the first column of a pack is valid, all are
  const T* const b_ptr = b + first_column + (valid_columns ? lane * kSize : 0);
  const long long k_tiles = warpwise::cdiv(k, kTileK);
  const int first = static_cast<int>(k_tiles * split / splits), last = static_cast<int>(k_tiles * (split + 1) / splits);

  float sums[ROWS][kSize] = {};
  for (int k_tile = first; k_tile < last; ++k_tile) {
    Loaded b_values[kRowsPerWarp];
#pragma unroll
    for (int i_row = 0; i_row < kRowsPerWarp; ++i_row) {
      const int row = k_tile * kTileK + i_row * kWarps + warp;
      b_values[i_row] = row < k ? *reinterpret_cast<const Loaded*>(b_ptr + row * b_stride) : Loaded{};
    }
    auto& a_tile = a_tiles[k_tile % 2];
    for (int i = threadIdx.x; i < kTileK * ROWS; i += kThreads) {
      const int k_row = i % kTileK, row = i / kTileK, k_index = k_tile * kTileK + k_row;
      const bool valid = k_index < k && row < tile.rows;
      a_tile[k_row][row] = valid ? warpwise::to_float(a[(first_row + row) * a_stride + k_index]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int i_row = 0; i_row < kRowsPerWarp; ++i_row) {
      float a_row[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) a_row[r] = a_tile[i_row * kWarps + warp][r];
#pragma unroll
      for (int e = 0; e < kSize; ++e) {
        const float b_value = warpwise::to_float(reinterpret_cast<const Pack&>(b_values[i_row]).at[e]);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) sums[r][e] += a_row[r] * b_value;
      }
    }
  }

#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kSize; ++e) warp_sums[warp][e * 32 + lane] = sums[r][e];
    __syncthreads();
    if (r >= tile.rows) continue;
    for (int i = threadIdx.x; i < kColumns; i += kThreads) {
      const int column = i % 32 * kSize + i / 32;
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) total += warp_sums[w][i];
      if (column < tile.columns)
        store_sum(c, partials, splits, split, m, n, static_cast<long long>(first_row + r) * n + first_column + column,
                  total);
    }
  }
  split_k_reduce(c, partials, semaphores + tile_index, splits, m, n, tile);
}

// The same for K-major b: its columns are contiguous, b_stride elements apart. Lanes stride along K; each warp
// accumulates COLUMNS columns and reduces them over its lanes at the end. BYTES: 4 elements if k, b_stride and the
// address of b are multiples of that, else one. Grid: cdiv(m, ROWS) * cdiv(n, kWarps * COLUMNS) * splits blocks of
// kThreads.
template <class T, int ROWS, int COLUMNS, int BYTES>
__global__ void __launch_bounds__(kThreads, 2) matmul_few_rows_k_major_b(const T* __restrict__ a,
                                                                         const T* __restrict__ b, T* c, float* partials,
                                                                         int* semaphores, int m, int n, int k,
                                                                         long long a_stride, long long b_stride,
                                                                         int tiles_m, int splits) {
  using Pack = warpwise::Pack<T, BYTES>;
  constexpr int kSize = Pack::size, kTileK = 32 * kSize, kColumns = kWarps * COLUMNS;
  __shared__ float a_tiles[2][ROWS][kSize][32];
  const int split = blockIdx.x % splits, tile_index = blockIdx.x / splits, warp = threadIdx.x / 32,
            lane = threadIdx.x % 32;
  const int first_row = tile_index % tiles_m * ROWS, first_column = tile_index / tiles_m * kColumns;
  const Tile tile{first_row, first_column, min(ROWS, m - first_row), min(kColumns, n - first_column)};
  const long long k_tiles = warpwise::cdiv(k, kTileK);
  const int first = static_cast<int>(k_tiles * split / splits), last = static_cast<int>(k_tiles * (split + 1) / splits);
  const T* columns[COLUMNS];  // columns past the last one are clamped to it
#pragma unroll
  for (int i = 0; i < COLUMNS; ++i)
    columns[i] = b + min(first_column + warp * COLUMNS + i, n - 1) * b_stride + lane * kSize;

  float sums[ROWS][COLUMNS] = {};
  for (int k_tile = first; k_tile < last; ++k_tile) {
    Pack b_values[COLUMNS];
    const bool valid_columns = k_tile * kTileK + lane * kSize < k;
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i)
      b_values[i] =
          valid_columns ? *warpwise::packs<BYTES>(columns[i] + static_cast<long long>(k_tile) * kTileK) : Pack{};
    auto& a_tile = a_tiles[k_tile % 2];
    for (int i = threadIdx.x; i < kTileK * ROWS; i += kThreads) {
      const int k_row = i % kTileK, row = i / kTileK, k_index = k_tile * kTileK + k_row;
      const bool valid = k_index < k && row < tile.rows;
      a_tile[row][k_row % kSize][k_row / kSize] =
          valid ? warpwise::to_float(a[(first_row + row) * a_stride + k_index]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      float b_value[COLUMNS];
#pragma unroll
      for (int i = 0; i < COLUMNS; ++i) b_value[i] = warpwise::to_float(b_values[i].at[e]);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const float a_row = a_tile[r][e][lane];
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) sums[r][i] += a_row * b_value[i];
      }
    }
  }

#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) {
      const float total = warpwise::warp_reduce<warpwise::Sum>(sums[r][i]);
      const int column = first_column + warp * COLUMNS + i;
      if (lane == 0 && r < tile.rows && column < n)
        store_sum(c, partials, splits, split, m, n, static_cast<long long>(first_row + r) * n + column, total);
    }
  }
  split_k_reduce(c, partials, semaphores + tile_index, splits, m, n, tile);
}
