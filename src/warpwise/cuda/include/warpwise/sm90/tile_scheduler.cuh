// The order in which the blocks of a persistent GEMM compute the tiles of C.
#pragma once

namespace warpwise {
namespace sm90 {

// A tile, or the tile of a cluster: its position in C, in tiles.
struct Tile {
  int row, column;
};

// Grouped raster order over `rows` x `columns` cluster tiles: groups of `group` rows, column by column within a group.
// The tiles in flight are nearly square, which minimises reads of A and B from L2.
struct TileScheduler {
  int rows, columns, group;
  __device__ int tiles() const { return rows * columns; }
  __device__ int row(int tile) const { return first(tile) + tile % per_group() % in_group(tile); }
  __device__ int column(int tile) const { return tile % per_group() / in_group(tile); }
  __device__ Tile at(int tile) const {  // row and column, which share their divisions
    const int size = group * columns, first = tile / size * group, in_group = min(group, rows - first);
    return {first + tile % size % in_group, tile % size / in_group};
  }

 private:
  __device__ int per_group() const { return group * columns; }
  __device__ int first(int tile) const { return tile / per_group() * group; }
  __device__ int in_group(int tile) const { return min(group, rows - first(tile)); }
};

}  // namespace sm90
}  // namespace warpwise
