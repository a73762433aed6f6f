// Tile scheduler for variable-M tiles: rows of tiles with 256 and 248 rows and at most one with 128.
#pragma once

// A tile of ROWS x COLUMNS, computed by two warpgroups. TRANSPOSED: wgmma computes the transposed tile, of which a
// warpgroup has 64 columns of C; otherwise it has 64 rows. Each warpgroup stores four boxes of 64 x 64, which may
// overlap.
template <int ROWS, int COLUMNS, bool TRANSPOSED>
struct Tile {
  static constexpr int rows = ROWS, boxes_a = (ROWS + 63) / 64, boxes_b = COLUMNS / 64;
  static constexpr bool transposed = TRANSPOSED;
};
using Wide = Tile<256, 128, true>;
using Narrow = Tile<248, 128, true>;
using Flat = Tile<128, 256, false>;

// `order.columns` rows of tiles, the first `wide` of them Wide, the others Narrow; if flat_tiles > 0, one more row of
// so many Flat tiles. `order`: the raster order of the other tiles; its rows are tile columns, 128 columns of C each.
template <class Order>
struct VariableMTiles {
  Order order;
  int wide, flat_tiles;
  __device__ int row(int tile_row) const {
    return tile_row * Narrow::rows + min(tile_row, wide) * (Wide::rows - Narrow::rows);
  }
  // Calls visit(Tile, row, column) for the tiles first, first + step, ...
  template <class Visit>
  __device__ void for_each_tile(int first, int step, const Visit& visit) const {
    const int regular_tiles = order.tiles();
    for (int tile = first; tile < regular_tiles + flat_tiles; tile += step) {
      const int tile_row = order.column(tile), column = order.row(tile) * 128;
      if (tile >= regular_tiles)
        visit(Flat(), row(order.columns), (tile - regular_tiles) * 256);
      else if (tile_row < wide)
        visit(Wide(), row(tile_row), column);
      else
        visit(Narrow(), row(tile_row), column);
    }
  }
};
