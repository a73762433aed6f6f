// For a dimension other than the last, without copies: lanes run along adjacent columns, and threads split a column.
//
// A thread loads VALUES packs of W columns at once; a column with at most VALUES elements per thread is read once.
// Longer columns are read twice. If there are too few blocks, several split a column: one launch writes the statistics
// of each part, and a second one combines them and computes the result.

#include <warpwise/core/previous_kernel.cuh>

#include "../columns.cuh"

using Set = warpwise::MaxAndSum;
using Statistics = Set::Value;

// x, y, block and grid: those of ColumnTile.
template <class T, int W, int THREADS, int VALUES>
struct Columns : ColumnTile<T, W, THREADS, VALUES> {
  using Tile = ColumnTile<T, W, THREADS, VALUES>;
  using Tile::Tile;
  float values[VALUES][W];

  __device__ void load(const T* x, int row) {
    typename Tile::Word words[VALUES];
    Tile::load(x, row, warpwise::minus_infinity(), words);
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
#pragma unroll
      for (int w = 0; w < W; ++w) values[v][w] = Tile::element(words[v], w);
    }
  }

  __device__ void store(T* y, int row, const float (&scale)[W]) const {
    typename Tile::Word words[VALUES];
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
      typename Tile::Pack pack;
#pragma unroll
      for (int w = 0; w < W; ++w) pack.at[w] = warpwise::from_float<T>(values[v][w] * scale[w]);
      words[v] = Tile::word(pack);
    }
    Tile::store(y, row, words);
  }

  // The statistics of this thread's elements. `values` are then e^(x - max) of its last batch.
  __device__ void read(const T* x, Statistics (&own)[W]) {
#pragma unroll
    for (int w = 0; w < W; ++w) own[w] = Set::identity();
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
    for (int row = this->first; row < this->last; row += this->batch()) {
      load(x, row);
#pragma unroll
      for (int w = 0; w < W; ++w) {
        float max = own[w].max;
#pragma unroll
        for (int v = 0; v < VALUES; ++v) max = fmaxf(max, values[v][w]);
        own[w] = {max, own[w].sum * expf(own[w].max - base(max))};
#pragma unroll
        for (int v = 0; v < VALUES; ++v) {
          values[v][w] = warpwise::exponential<T>(values[v][w] - base(max));
          own[w].sum += values[v][w];
        }
      }
    }
  }

  // Backwards, because the batches that were read last are still in L2.
  __device__ void write(const T* x, T* y, const Statistics (&all)[W]) {
    float scale[W];
#pragma unroll
    for (int w = 0; w < W; ++w) scale[w] = 1.0f / all[w].sum;
#pragma unroll 1
    for (int number = this->batches() - 1; number >= 0; --number) {
      const int row = this->first + number * this->batch();
      load(x, row);
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
#pragma unroll
        for (int w = 0; w < W; ++w) values[v][w] = warpwise::exponential<T>(values[v][w] - all[w].max);
      }
      store(y, row, scale);
    }
  }
};

// One part.
template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_columns(const T* x, T* y, long long columns,
                                                                           long long inner, int length) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, length);
  warpwise::wait_for_previous_kernel();
  Statistics own[W], all[W];
  here.read(x, own);
#pragma unroll
  for (int w = 0; w < W; ++w) all[w] = own[w];
  here.template combine<Set>(all);
  if (length <= here.batch()) {
    float scale[W];
#pragma unroll
    for (int w = 0; w < W; ++w) scale[w] = expf(own[w].max - all[w].max) / all[w].sum;
    here.store(y, here.first, scale);
  } else {
    here.write(x, y, all);
  }
}

// partial: (parts, columns, 2), maximum and sum.
template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_statistics(const T* x, float* partial,
                                                                              long long columns, long long inner,
                                                                              int length, int share) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  Statistics all[W];
  here.read(x, all);
  here.template combine<Set>(all);
  if (here.line != 0 || here.column >= columns) return;
  auto* const to = reinterpret_cast<Statistics*>(partial) + blockIdx.y * columns + here.column;
#pragma unroll
  for (int w = 0; w < W; ++w) to[w] = all[w];
}

template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_from_statistics(const T* x, const float* partial,
                                                                                   T* y, long long columns,
                                                                                   long long inner, int length,
                                                                                   int share) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  Statistics all[W];
  here.template combine_parts<Set>(reinterpret_cast<const Statistics*>(partial), columns, all);
  here.write(x, y, all);
}
