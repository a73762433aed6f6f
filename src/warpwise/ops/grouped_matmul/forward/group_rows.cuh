// The rows of groups, found on the device: a block walks through the groups with its tiles, which ascend.
#pragma once

#include <warpwise/sm90/tile_scheduler.cuh>

// A group has as many rows of tiles, BM high, as its own rows need. The rows past the last end are one more group,
// number `count`, whose tiles are zero. ends: (count,), clamped to ascend up to rows_of_all; columns: tiles of a row.
template <int BM>
struct GroupRows {
  const int* ends;
  int count, rows_of_all, columns;
  int group = -1, begin = 0, end = 0, before = 0;  // the current group, its rows, and the tiles before it
  __device__ int rows() const { return (end - begin + BM - 1) / BM; }
  __device__ bool has_matrix() const { return group < count; }
  __device__ bool more(int tile) {  // goes on to the group of `tile`, if there is one
    while (tile >= before + rows() * columns) {
      if (group == count) return false;
      before += rows() * columns;
      begin = end;
      end = ++group < count ? min(max(__ldg(ends + group), begin), rows_of_all) : rows_of_all;
    }
    return true;
  }
};
