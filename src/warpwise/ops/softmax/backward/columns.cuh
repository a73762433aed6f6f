// The columns of both inputs that a thread holds, shared by k07 and k09.
#pragma once

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

  // Backwards, because the batches that were read last are still in L2. The last batch is loaded.
  __device__ void write(const T* dy, const T* y, T* dx, const float (&dot)[W]) {
#pragma unroll 1
    for (int row = this->last_batch(); row >= this->first; row -= this->batch()) {
      store(dx, row, dot);
      if (row > this->first) load(dy, y, row - this->batch());
    }
  }
};
