// The columns of softmax that a thread holds, shared by k09 and k10.
#pragma once

#include "../columns.cuh"

using Statistics = warpwise::MaxAndSum::Value;

// x, y, block and grid: those of ColumnTile.
template <class T, int W, int THREADS, int VALUES>
struct Columns : ColumnTile<T, W, THREADS, VALUES> {
  using Tile = ColumnTile<T, W, THREADS, VALUES>;
  using Tile::Tile;
  float values[VALUES][W];

  __device__ void load(const T* x, int row, typename Tile::Word (&words)[VALUES]) const {
    Tile::load(x, row, warpwise::minus_infinity(), words);
  }
  __device__ void convert(const typename Tile::Word (&words)[VALUES]) {
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

  // The statistics of the batch in `words`. `values` are then e^(x - max).
  __device__ void add(const typename Tile::Word (&words)[VALUES], Statistics (&own)[W]) {
    convert(words);
#pragma unroll
    for (int w = 0; w < W; ++w) {
      float max = own[w].max;
#pragma unroll
      for (int v = 0; v < VALUES; ++v) max = fmaxf(max, values[v][w]);
      own[w] = {max, own[w].sum * warpwise::exponential<T>(own[w].max - base(max))};
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
        values[v][w] = warpwise::exponential<T>(values[v][w] - base(max));
        own[w].sum += values[v][w];
      }
    }
  }

  // The statistics of this thread's elements, of one batch and of any number of them.
  __device__ void read_batch(const T* x, Statistics (&own)[W]) {
    typename Tile::Word words[VALUES];
#pragma unroll
    for (int w = 0; w < W; ++w) own[w] = warpwise::MaxAndSum::identity();
    load(x, this->first, words);
    add(words, own);
  }
  __device__ void read(const T* x, Statistics (&own)[W]) {
#pragma unroll
    for (int w = 0; w < W; ++w) own[w] = warpwise::MaxAndSum::identity();
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
    for (int row = this->first; row < this->last; row += this->batch()) {
      typename Tile::Word words[VALUES];
      load(x, row, words);
      add(words, own);
    }
  }

  // Backwards, because the batches that were read last are still in L2. words: the last batch.
  __device__ void write(const T* x, T* y, const Statistics (&all)[W], typename Tile::Word (&words)[VALUES]) {
    float scale[W];
#pragma unroll
    for (int w = 0; w < W; ++w) scale[w] = 1.0f / all[w].sum;
#pragma unroll 1
    for (int row = this->last_batch(); row >= this->first; row -= this->batch()) {
      convert(words);
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
#pragma unroll
        for (int w = 0; w < W; ++w) values[v][w] = warpwise::exponential<T>(values[v][w] - all[w].max);
      }
      store(y, row, scale);
      if (row > this->first) load(x, row - this->batch(), words);
    }
  }
};
