// The tiles that a block of one launch takes, colour after colour; the grid synchronises between the colours.
#pragma once

#include <cooperative_groups.h>

#include "colours.cuh"

// Points `first` to `end`, the end of the colour, or fewer; `left` tiles of the colour from this one on. colour is -1
// if there is no further tile.
struct TilePlace {
  int first, end, colour, left;
};

struct ColourOrder {
  const Colours& colours;
  int points;                                // of a tile
  int own = blockIdx.x, stride = gridDim.x;  // the first tile of each colour, and tiles from one to the next
  int synchronised = 0;                      // barriers that the block has passed
  bool arrived = false;                      // at the barrier after these
  cooperative_groups::grid_group::arrival_token token = 0;

  // Gives the tiles of a block to `members` of it in turn: a warp or a warpgroup has tiles of its own.
  __device__ void share(int member, int members) {
    own += gridDim.x * member;
    stride *= members;
  }

  // The first tile from `colour` on.
  __device__ TilePlace place(int colour) const {
    const int tile = own;
    for (; colour < colours.count; ++colour) {
      const int begin = colours.ends[colour], end = colours.ends[colour + 1],
                tiles = (end - begin + points - 1) / points;
      // Every other colour goes backwards and begins with rows of q that are in L2.
      if (tile < tiles) return {begin + (colour % 2 ? tiles - 1 - tile : tile) * points, end, colour, tiles - tile};
    }
    const int end = colours.ends[colours.count];
    return {end, end, -1, 0};
  }

  __device__ TilePlace first() const { return place(0); }
  __device__ TilePlace next(const TilePlace& present) const {
    const int step = stride * points;
    if (present.left <= stride) return place(present.colour < 0 ? colours.count : present.colour + 1);
    return {present.first + (present.colour % 2 ? -step : step), present.end, present.colour, present.left - stride};
  }

  // One place of the barrier for all warps of the block, which may arrive from different colours.
  __device__ void arrive() {
    token = cooperative_groups::this_grid().barrier_arrive();
    arrived = true;
  }

  // After the points of a tile, if that of `next` has another colour.
  __device__ void arrive(const TilePlace& next) {
    if (synchronised < (next.colour < 0 ? colours.count - 1 : next.colour)) arrive();
  }

  // The colours before `colour` are complete.
  __device__ void wait(int colour) {
    for (; arrived || synchronised < colour; ++synchronised) {
      if (!arrived) arrive();
      cooperative_groups::this_grid().barrier_wait(static_cast<unsigned&&>(token));
      arrived = false;
    }
  }
};
