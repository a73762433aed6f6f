// The tiles that a block of one launch takes, colour after colour; the grid synchronises between the colours.
#pragma once

#include <cooperative_groups.h>

#include "colours.cuh"

// Points `first` to `end`, the end of the colour, or fewer. colour is -1 if there is no further tile.
struct TilePlace {
  int first, end, colour, tile;
};

struct ColourOrder {
  const Colours& colours;
  int points, synchronised = 0;  // of a tile; barriers that the block has passed
  bool arrived = false;          // at the barrier after these
  cooperative_groups::grid_group::arrival_token token = 0;

  __device__ TilePlace place(int colour, int tile) const {
    for (; colour < colours.count; ++colour, tile = blockIdx.x) {
      const int begin = colours.ends[colour], end = colours.ends[colour + 1],
                tiles = (end - begin + points - 1) / points;
      // Every other colour goes backwards and begins with rows of q that are in L2.
      if (tile < tiles) return {begin + (colour % 2 ? tiles - 1 - tile : tile) * points, end, colour, tile};
    }
    const int end = colours.ends[colours.count];
    return {end, end, -1, 0};
  }

  __device__ TilePlace first() const { return place(0, blockIdx.x); }
  __device__ TilePlace next(const TilePlace& present) const { return place(present.colour, present.tile + gridDim.x); }

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
