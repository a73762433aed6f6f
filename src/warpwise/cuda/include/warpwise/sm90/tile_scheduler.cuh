// The order in which the blocks of a persistent GEMM compute the tiles of C.
#pragma once

namespace warpwise {
namespace sm90 {

// Grouped raster order over `rows` x `columns` cluster tiles: groups of `group` rows, column by column within a group.
// The tiles in flight are nearly square, which minimises reads of A and B from L2.
struct TileScheduler {
  int rows, columns, group;
  __device__ int tiles() const { return rows * columns; }
  __device__ int row(int tile) const { return first(tile) + tile % per_group() % in_group(tile); }
  __device__ int column(int tile) const { return tile % per_group() / in_group(tile); }

 private:
  __device__ int per_group() const { return group * columns; }
  __device__ int first(int tile) const { return tile / per_group() * group; }
  __device__ int in_group(int tile) const { return min(group, rows - first(tile)); }
};

}  // namespace sm90
}  // namespace warpwise
