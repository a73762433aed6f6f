// Tiles of several sizes in one product, against wave quantisation: columns of tiles of two widths, and rows of tiles
// of two heights. sm_90a only.
//
// The N dimension of wgmma is a multiple of 8, so a tile may have 248 rows or columns. It is loaded as one of 256, and
// stored in boxes of 64. The last box ends at the end of the tile: it overlaps the box before, and stores the same
// values there.
#pragma once

#include <warpwise/sm90/gemm_store.cuh>

namespace warpwise {
namespace sm90 {

// A work tile of `gemm` at (row, column) of C, over the whole of K.
template <class P, bool TRANSPOSED = false>
struct PlacedWork {
  using Config = P;
  static constexpr bool transposed = TRANSPOSED, may_be_empty = false;
  int tiles_k, row, column;
  __device__ int k_tiles() const { return tiles_k; }
  __device__ int first_k() const { return 0; }
  __device__ TileCoord at() const { return TRANSPOSED ? TileCoord{column, row} : TileCoord{row, column}; }
};

// `order.rows` x `order.columns` cluster tiles, of which the first `wide` columns are Wide, the others Narrow, so that
// the tiles can be a multiple of the clusters. GemmConfigs that differ in their width, with clusters of one column.
template <class Wide, class Narrow>
struct VariableNTiles {
  static constexpr bool unrolled = true, alternates = false;
  TileScheduler order;
  int wide, tiles_k;

  template <class Visit>
  __device__ void for_each(const Visit& visit) const {
    for (int tile = blockIdx.x / Wide::cluster; tile < order.tiles(); tile += gridDim.x / Wide::cluster) {
      const Tile at = order.at(tile);
      const int row = at.row * Wide::cm * Wide::bm;
      const int column = at.column * Narrow::columns + min(at.column, wide) * (Wide::columns - Narrow::columns);
      if (at.column < wide)
        visit(PlacedWork<Wide>{tiles_k, row, column});
      else
        visit(PlacedWork<Narrow>{tiles_k, row, column});
    }
  }
};

// Rows of tiles of 256 and 248 rows, which are computed as tiles of C^T = B^T A^T; A must be K-major: its lines begin
// on 16 bytes at any row.
//
// `order.columns` rows of tiles, the first `wide` of them with 256 rows, the others with 248, and 128 columns; if
// flat_tiles > 0, one more row with flat_tiles tiles of 128 x 256. `order`: the raster order of the other tiles; its
// rows are tile columns, with 128 columns of C each. MN_MAJOR: B is row-major.
template <class T, bool MN_MAJOR>
struct VariableMTiles {
  template <int ROWS>
  using Tall = GemmConfig<T, 128, 256, 2, 1, 4, 1, 1, MN_MAJOR, false, 64, 64, ROWS>;
  using Flat = GemmConfig<T, 128, 256, 2, 1, 4, 1, 1, false, MN_MAJOR>;
  static constexpr int kWide = 256, kNarrow = 248;
  static constexpr bool unrolled = false, alternates = true;
  TileScheduler order;
  int wide, flat_tiles, tiles_k;

  __device__ int row(int tile_row) const { return tile_row * kNarrow + min(tile_row, wide) * (kWide - kNarrow); }
  template <class Visit>
  __device__ void for_each(const Visit& visit) const {
    const int regular_tiles = order.tiles();
    for (int tile = blockIdx.x; tile < regular_tiles + flat_tiles; tile += gridDim.x) {
      if (tile >= regular_tiles) {
        visit(PlacedWork<Flat>{tiles_k, row(order.columns), (tile - regular_tiles) * 256});
        continue;
      }
      const Tile at = order.at(tile);
      if (at.column < wide)
        visit(PlacedWork<Tall<kWide>, true>{tiles_k, row(at.column), at.row * 128});
      else
        visit(PlacedWork<Tall<kNarrow>, true>{tiles_k, row(at.column), at.row * 128});
    }
  }
};

// Stores 64 x 64 of C from the registers of a warpgroup, which hold the transpose, to a box in shared memory; each
// warp stores 16 columns.
__device__ inline void registers_to_shared_transposed(unsigned box, const unsigned (&pairs)[16]) {
  const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
  const int unit = thread / 32 * 2 + lane / 8 % 2;  // of 16 bytes; swizzled by row
#pragma unroll
  for (int j = 0; j < 4; ++j) {  // 16 rows: four 8 x 8 matrices
    const int row = j * 16 + lane / 16 * 8 + lane % 8;
    const unsigned r[4] = {pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2], pairs[4 * j + 3]};
    stmatrix_x4_trans(box + row * kRowBytes + ((unit ^ (row & 7)) << 4), r);
  }
}

// BoxStore for tiles of several sizes, of which some are transposed; a tile is one wgmma high.
struct VariableBoxStore : BoxStore {
  struct Position {
    int row, column, last_box;  // last_box: offset of the last box in the tile
    bool transposed;
  };

  template <class Work>
  static __device__ Position position(int row, int column, int) {
    if (Work::transposed) return {column, row, Work::Config::width - 64, true};
    return {row, column, Work::Config::width - 64, false};
  }
  static __device__ void write(unsigned box, const unsigned (&pairs)[16], const Position& at) {
    if (at.transposed)
      registers_to_shared_transposed(box, pairs);
    else
      registers_to_shared(box, pairs);
  }
  __device__ void send(unsigned box, const Position& at, int, int offset) const {
    const int along = min(offset, at.last_box);
    tma_store_2d(map, box, at.column + (at.transposed ? 0 : along), at.row + (at.transposed ? along : 0));
  }
};

}  // namespace sm90
}  // namespace warpwise
