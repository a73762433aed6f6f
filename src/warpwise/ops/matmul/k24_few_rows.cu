// A few rows of A, in any dtype: B straight from global memory into registers, each element for all rows of A at once.
//
// A tile of 64 or 128 rows would multiply mostly zeros, and one of few rows spends its time on shared memory. Here a
// thread keeps sums for ROWS rows and a few columns; B passes by once, in 16-byte loads whichever way it lies, and A's
// rows wait in shared memory. Blocks take parts of K, and the last one of a tile to finish adds the parts, in order.

#include <warpwise/core/pack.cuh>
#include <warpwise/core/reduce.cuh>

#include "parts_of_c.cuh"

// a: (m, k) and b: (k, n), their rows a_stride and b_stride elements apart; c: (m, n). A warp's lanes take neighbouring
// columns, BYTES each; the warps of a block, and `count` blocks, take different rows of b. partials: (count, m, n);
// tickets: one a tile. BYTES: 16 where n and b_stride are multiples of it and b lies on it, else an element's size.
// Grid: cdiv(m, ROWS) * cdiv(n, 32 * BYTES / sizeof(T)) * count blocks.
template <class T, int ROWS, int BYTES>
__global__ void __launch_bounds__(kThreads, 2) matmul_few_rows(const T* __restrict__ a, const T* __restrict__ b, T* c,
                                                               float* partials, int* tickets, int m, int n, int k,
                                                               long long a_stride, long long b_stride, int tiles_m,
                                                               int count) {
  using Pack = warpwise::Pack<T, BYTES>;
  constexpr int kSize = Pack::size, kColumns = 32 * kSize, kTurns = ROWS > 8 ? 4 : 8, kTileK = kTurns * kWarps;
  constexpr int kStride = ROWS % 4 ? ROWS : ROWS + 4;  // floats: fewer writers of a slice share a bank
  __shared__ __align__(16) float of_a[2][kTileK][kStride];
  __shared__ float room[kWarps][kColumns];
  const int part = blockIdx.x % count, number = blockIdx.x / count, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = number % tiles_m * ROWS, first_column = number / tiles_m * kColumns;
  const Tile tile{first_row, first_column, min(ROWS, m - first_row), min(kColumns, n - first_column)};
  const bool inside = lane * kSize < tile.columns;  // then so are all columns of its pack
  const T* const from_b = b + first_column + (inside ? lane * kSize : 0);
  const int slices = warpwise::cdiv(k, kTileK);
  const int first = static_cast<int>(static_cast<long long>(slices) * part / count);
  const int last = static_cast<int>(static_cast<long long>(slices) * (part + 1) / count);

  float sums[ROWS][kSize] = {};
  for (int slice = first; slice < last; ++slice) {
    Pack of_b[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int row = slice * kTileK + turn * kWarps + warp;
      of_b[turn] = row < k ? *warpwise::packs<BYTES>(from_b + row * b_stride) : Pack{};
    }
    auto& slice_of_a = of_a[slice % 2];
    for (int i = threadIdx.x; i < kTileK * ROWS; i += kThreads) {
      const int depth = i % kTileK, row = i / kTileK, at = slice * kTileK + depth;
      const bool exists = at < k && row < tile.rows;
      slice_of_a[depth][row] = exists ? warpwise::to_float(a[(first_row + row) * a_stride + at]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      float x[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) x[r] = slice_of_a[turn * kWarps + warp][r];
#pragma unroll
      for (int e = 0; e < kSize; ++e) {
        const float y = warpwise::to_float(of_b[turn].at[e]);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) sums[r][e] += x[r] * y;
      }
    }
  }

#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kSize; ++e) room[warp][e * 32 + lane] = sums[r][e];
    __syncthreads();
    if (r >= tile.rows) continue;
    for (int i = threadIdx.x; i < kColumns; i += kThreads) {
      const int column = i % 32 * kSize + i / 32;
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) total += room[w][i];
      if (column < tile.columns)
        put(c, partials, count, part, m, n, static_cast<long long>(first_row + r) * n + first_column + column, total);
    }
  }
  add_parts(c, partials, tickets + number, count, m, n, tile);
}

// The same for a b whose columns lie one after another, b_stride elements apart: lanes walk along K, and each warp
// keeps sums of COLUMNS columns, which it adds over its lanes at the end. BYTES: 16 where k and b_stride are multiples
// of it and b lies on it. Grid: cdiv(m, ROWS) * cdiv(n, kWarps * COLUMNS) * count blocks.
template <class T, int ROWS, int COLUMNS, int BYTES>
__global__ void __launch_bounds__(kThreads, 2) matmul_few_rows_by_columns(const T* __restrict__ a,
                                                                          const T* __restrict__ b, T* c,
                                                                          float* partials, int* tickets, int m, int n,
                                                                          int k, long long a_stride, long long b_stride,
                                                                          int tiles_m, int count) {
  using Pack = warpwise::Pack<T, BYTES>;
  constexpr int kSize = Pack::size, kTileK = 32 * kSize, kColumns = kWarps * COLUMNS;
  __shared__ float of_a[2][ROWS][kSize][32];
  const int part = blockIdx.x % count, number = blockIdx.x / count, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = number % tiles_m * ROWS, first_column = number / tiles_m * kColumns;
  const Tile tile{first_row, first_column, min(ROWS, m - first_row), min(kColumns, n - first_column)};
  const int slices = warpwise::cdiv(k, kTileK);
  const int first = static_cast<int>(static_cast<long long>(slices) * part / count);
  const int last = static_cast<int>(static_cast<long long>(slices) * (part + 1) / count);
  const T* columns[COLUMNS];  // past the last one, the last one again
#pragma unroll
  for (int i = 0; i < COLUMNS; ++i)
    columns[i] = b + min(first_column + warp * COLUMNS + i, n - 1) * b_stride + lane * kSize;

  float sums[ROWS][COLUMNS] = {};
  for (int slice = first; slice < last; ++slice) {
    Pack of_b[COLUMNS];
    const bool inside = slice * kTileK + lane * kSize < k;
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i)
      of_b[i] = inside ? *warpwise::packs<BYTES>(columns[i] + static_cast<long long>(slice) * kTileK) : Pack{};
    auto& slice_of_a = of_a[slice % 2];
    for (int i = threadIdx.x; i < kTileK * ROWS; i += kThreads) {
      const int depth = i % kTileK, row = i / kTileK, at = slice * kTileK + depth;
      const bool exists = at < k && row < tile.rows;
      slice_of_a[row][depth % kSize][depth / kSize] =
          exists ? warpwise::to_float(a[(first_row + row) * a_stride + at]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      float y[COLUMNS];
#pragma unroll
      for (int i = 0; i < COLUMNS; ++i) y[i] = warpwise::to_float(of_b[i].at[e]);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const float x = slice_of_a[r][e][lane];
#pragma unroll
        for (int i = 0; i < COLUMNS; ++i) sums[r][i] += x * y[i];
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
        put(c, partials, count, part, m, n, static_cast<long long>(first_row + r) * n + column, total);
    }
  }
  add_parts(c, partials, tickets + number, count, m, n, tile);
}
