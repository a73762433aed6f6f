// Split-K: with one split, sums are stored to C directly; otherwise the last block of a tile reduces the partial sums.
#pragma once

#include <warpwise/core/partial_sums.cuh>

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
