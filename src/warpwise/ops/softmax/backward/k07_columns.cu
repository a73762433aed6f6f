// For a dimension other than the last, without copies: lanes run along adjacent columns, and threads split a column.
//
// A thread loads VALUES packs of W columns of both inputs at once; a column with at most VALUES elements per thread is
// read once. Longer columns are read twice. If there are too few blocks, several split a column: one launch writes the
// sum of dy * y of each part, and a second one adds these sums and computes the result.

#include <warpwise/core/previous_kernel.cuh>

#include "../columns.cuh"

using warpwise::Sum;

// dy, y, dx, block and grid: those of ColumnTile.
template <class T, int W, int THREADS, int VALUES>
struct Columns : ColumnTile<T, W, THREADS, VALUES> {
  using Tile = ColumnTile<T, W, THREADS, VALUES>;
  using Tile::Tile;
  typename Tile::Word gradient[VALUES], probability[VALUES];

  __device__ void load(const T* dy, const T* y, int row) {
    Tile::load(dy, row, 0.0f, gradient);
    Tile::load(y, row, 0.0f, probability);
  }

  __device__ void read(const T* dy, const T* y, float (&dot)[W]) {
#pragma unroll
    for (int w = 0; w < W; ++w) dot[w] = 0.0f;
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
    for (int row = this->first; row < this->last; row += this->batch()) {
      load(dy, y, row);
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
#pragma unroll
        for (int w = 0; w < W; ++w) dot[w] += Tile::element(gradient[v], w) * Tile::element(probability[v], w);
      }
    }
  }

  __device__ void store(T* dx, int row, const float (&dot)[W]) {
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
      typename Tile::Pack pack;
#pragma unroll
      for (int w = 0; w < W; ++w) {
        const float difference = Tile::element(gradient[v], w) - dot[w];
        pack.at[w] = warpwise::from_float<T>(Tile::element(probability[v], w) * difference);
      }
      gradient[v] = Tile::word(pack);
    }
    Tile::store(dx, row, gradient);
  }

  // Backwards, because the batches that were read last are still in L2.
  __device__ void write(const T* dy, const T* y, T* dx, const float (&dot)[W]) {
#pragma unroll 1
    for (int number = this->batches() - 1; number >= 0; --number) {
      const int row = this->first + number * this->batch();
      load(dy, y, row);
      store(dx, row, dot);
    }
  }
};

// One part.
template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_backward_columns(const T* dy, const T* y, T* dx,
                                                                                    long long columns, long long inner,
                                                                                    int length) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, length);
  warpwise::wait_for_previous_kernel();
  float dot[W];
  here.read(dy, y, dot);
  here.template combine<Sum>(dot);
  if (length <= here.batch()) {
    here.store(dx, here.first, dot);
  } else {
    here.write(dy, y, dx, dot);
  }
}

// partial: (parts, columns).
template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_backward_sums(const T* dy, const T* y,
                                                                                 float* partial, long long columns,
                                                                                 long long inner, int length,
                                                                                 int share) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  float dot[W];
  here.read(dy, y, dot);
  here.template combine<Sum>(dot);
  if (here.line != 0 || here.column >= columns) return;
#pragma unroll
  for (int w = 0; w < W; ++w) partial[blockIdx.y * columns + here.column + w] = dot[w];
}

template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_backward_from_sums(
    const T* dy, const T* y, const float* partial, T* dx, long long columns, long long inner, int length, int share) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  float dot[W];
  here.template combine_parts<Sum>(partial, columns, dot);
  here.write(dy, y, dx, dot);
}
