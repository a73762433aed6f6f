// Sums over parts of K on their way to C: written at once where there is one part, else left for the last block to add.
#pragma once

#include <warpwise/core/partial_sums.cuh>

constexpr int kThreads = 256, kWarps = kThreads / 32;

// The elements of c: (m, n) from (first_row, first_column) on, rows x columns of them, where c or the part lies.
struct Tile {
  int first_row, first_column, rows, columns;
};

// After all threads wrote their block's part: the last block of `count` writes the tile of c.
template <class T>
__device__ inline void add_parts(T* c, const float* parts, int* ticket, int count, int m, int n, Tile tile) {
  if (count == 1 || !warpwise::is_last_block(ticket, count)) return;
  for (int i = threadIdx.x; i < tile.rows * tile.columns; i += kThreads) {
    const long long at =
        static_cast<long long>(tile.first_row + i / tile.columns) * n + tile.first_column + i % tile.columns;
    float sum = 0.0f;
#pragma unroll 8
    for (int part = 0; part < count; ++part) sum += __ldcg(parts + static_cast<long long>(part) * m * n + at);
    c[at] = warpwise::from_float<T>(sum);
  }
}

template <class T>
__device__ inline void put(T* c, float* parts, int count, int part, int m, int n, long long at, float sum) {
  if (count == 1)
    c[at] = warpwise::from_float<T>(sum);
  else
    parts[static_cast<long long>(part) * m * n + at] = sum;
}
