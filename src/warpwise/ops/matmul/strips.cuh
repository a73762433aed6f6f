// C in strips of 256 and 248 rows and at most one of 128: who has which tile.
#pragma once

// A tile of ROWS x COLUMNS sums, of two warpgroups. TURNED, the matrix units are given its transpose, and a warpgroup
// has 64 columns of it, else 64 rows. It leaves in four boxes of 64 x 64 a warpgroup, which may overlap.
template <int ROWS, int COLUMNS, bool TURNED>
struct Tile {
  static constexpr int rows = ROWS, boxes_a = (ROWS + 63) / 64, boxes_b = COLUMNS / 64;
  static constexpr bool turned = TURNED;
};
using Wide = Tile<256, 128, true>;
using Narrow = Tile<248, 128, true>;
using Flat = Tile<128, 256, false>;

// `order.columns` strips, the first `wide` of them Wide, the others Narrow; where `flats` are told, one more of 128
// rows in so many Flat tiles. `order`, whose rows are bands of 128 columns, is that of the tiles before them.
template <class Order>
struct Strips {
  Order order;
  int wide, flats;
  __device__ int row(int strip) const { return strip * Narrow::rows + min(strip, wide) * (Wide::rows - Narrow::rows); }
  // What a block does, every `step`-th of all: visit(Tile, row, column).
  template <class Visit>
  __device__ void each(int first, int step, const Visit& visit) const {
    const int before = order.tiles();
    for (int number = first; number < before + flats; number += step) {
      const int strip = order.column(number), column = order.row(number) * 128;
      if (number >= before)
        visit(Flat(), row(order.columns), (number - before) * 256);
      else if (strip < wide)
        visit(Wide(), row(strip), column);
      else
        visit(Narrow(), row(strip), column);
    }
  }
};
