// The work units of k11: tiles of C, and parts of K of the tiles of the last, partial wave.
#pragma once

namespace warpwise {

// Split-K of the last tiles: the first `whole_tiles` tiles of C are one work unit each; every other tile is `splits`
// work units, whose partial sums are written to `partials`: (tiles - whole_tiles, splits, BM, BN).
struct SplitK {
  float* partials;
  int whole_tiles, splits;
};

// K-tiles [first, first + k_tiles) of a tile; split: its index, or -1 for the whole of K. `total`: k-tiles of a tile.
struct WorkUnit {
  int tile, split = -1, first = 0, k_tiles;
  __device__ WorkUnit(int unit, int total, const SplitK& split_k) : tile(unit), k_tiles(total) {
    if (unit < split_k.whole_tiles) return;
    const int base = total / split_k.splits, remainder = total % split_k.splits;
    tile = split_k.whole_tiles + (unit - split_k.whole_tiles) / split_k.splits;
    split = (unit - split_k.whole_tiles) % split_k.splits;
    first = split * base + min(split, remainder);
    k_tiles = base + (split < remainder);
  }
};

}  // namespace warpwise
