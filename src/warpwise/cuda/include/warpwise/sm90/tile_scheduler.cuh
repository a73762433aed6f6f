// The order in which the blocks of a persistent GEMM compute the tiles of C.
#pragma once

namespace warpwise {
namespace sm90 {

// A tile, or the tile of a cluster: its position in C, in tiles.
struct Tile {
  int row, column;
};

// The first element of a cluster's tile of C, and the matrices of A, B and C in a batch.
struct TileCoord {
  int row, column, a = 0, b = 0, c = 0;
};

// Grouped raster order over `rows` x `columns` cluster tiles: groups of `group` rows, column by column within a group.
// The tiles in flight are nearly square, which minimises reads of A and B from L2.
struct TileScheduler {
  int rows, columns, group;
  __device__ int tiles() const { return rows * columns; }
  __device__ Tile at(int tile) const {
    const int size = group * columns, first = tile / size * group, in_group = min(group, rows - first);
    return {first + tile % size % in_group, tile % size / in_group};
  }
};

// The tiles of a matrix in this order, all with `tiles_k` k-tiles.
struct MatrixTiles {
  TileScheduler order;
  int tiles_k;
  static constexpr bool may_be_empty = false;
  __device__ int tiles() const { return order.tiles(); }
  __device__ int k_tiles(int) const { return tiles_k; }
  __device__ int first_k(int) const { return 0; }
  __device__ TileCoord at(int index) const {  // in cluster tiles
    const Tile tile = order.at(index);
    return {tile.row, tile.column};
  }
};

// A work tile of `gemm` that is one of `Tiles`, such as MatrixTiles. P: a GemmConfig.
template <class P, class Tiles>
struct IndexedWork {
  using Config = P;
  static constexpr bool transposed = false, may_be_empty = Tiles::may_be_empty;
  const Tiles& all;
  int index;
  __device__ int k_tiles() const { return all.k_tiles(index); }
  __device__ int first_k() const { return all.first_k(index); }
  __device__ TileCoord at() const {
    const TileCoord tile = all.at(index);
    return {tile.row * P::cm * P::bm, tile.column * P::cn * P::columns, tile.a, tile.b, tile.c};
  }
  __device__ bool is_last() const { return index + gridDim.x / P::cluster >= all.tiles(); }
};

// Data-parallel: each cluster computes every gridDim-th of all tiles.
template <class P, class Tiles = MatrixTiles>
struct PersistentTiles {
  static constexpr bool unrolled = true;  // the producer's loop over k-tiles, if 40 registers suffice
  static constexpr bool alternates = false;
  Tiles all;
  template <class Visit>
  __device__ void for_each(const Visit& visit) const {
    const int first = blockIdx.x / P::cluster, step = gridDim.x / P::cluster;
    for (int tile = first; tile < all.tiles(); tile += step) visit(IndexedWork<P, Tiles>{all, tile});
  }
};

}  // namespace sm90
}  // namespace warpwise
