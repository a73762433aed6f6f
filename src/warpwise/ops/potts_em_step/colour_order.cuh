// The tiles that a block of one launch takes, colour after colour; the grid synchronises between the colours.
#pragma once

#include <cooperative_groups.h>

#include "colours.cuh"

// Points `first` to `end`, the end of the colour, or fewer; `left` tiles of the colour from this one on. colour is -1
// if there is no further tile.
struct TilePlace {
  int first, end, colour, left;
};

// RUNS: a block takes adjacent tiles of a colour, else every gridDim.x-th.
template <bool RUNS = false>
struct ColourOrder {
  const Colours& colours;
  int points, synchronised = 0;  // of a tile; barriers that the block has passed
  bool arrived = false;          // at the barrier after these
  cooperative_groups::grid_group::arrival_token token = 0;

  // The block's first tile from `colour` on.
  __device__ TilePlace place(int colour) const {
    for (; colour < colours.count; ++colour) {
      const int begin = colours.ends[colour], end = colours.ends[colour + 1],
                tiles = (end - begin + points - 1) / points;
      const int run = RUNS ? (tiles + gridDim.x - 1) / gridDim.x : 1, tile = blockIdx.x * run;
      // Every other colour goes backwards and begins with rows of q that are in L2.
      if (tile < tiles) return {begin + (colour % 2 ? tiles - 1 - tile : tile) * points, end, colour,
                                RUNS ? min(run, tiles - tile) : tiles - tile};
    }
    const int end = colours.ends[colours.count];
    return {end, end, -1, 0};
  }

  __device__ TilePlace first() const { return place(0); }
  __device__ TilePlace next(const TilePlace& present) const {
    const int blocks = RUNS ? 1 : gridDim.x, step = blocks * points;
    if (present.left <= blocks) return place(present.colour < 0 ? colours.count : present.colour + 1);
    return {present.first + (present.colour % 2 ? -step : step), present.end, present.colour, present.left - blocks};
  }

  // After the points of a tile, if that of `next` has another colour.
  __device__ void arrive(const TilePlace& next) {
    if (synchronised >= (next.colour < 0 ? colours.count - 1 : next.colour)) return;
    token = cooperative_groups::this_grid().barrier_arrive();
    arrived = true;
  }

  // The colours before `colour` are complete.
  __device__ void wait(int colour) {
    if (arrived) {
      cooperative_groups::this_grid().barrier_wait(static_cast<unsigned&&>(token));
      arrived = false;
      ++synchronised;
    }
    for (; synchronised < colour; ++synchronised) cooperative_groups::this_grid().sync();
  }
};
