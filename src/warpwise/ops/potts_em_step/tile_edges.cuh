// The first edges of the points of a warp's tile, for k04 and k06 to k10.
#pragma once

#include <warpwise/sm80/copy_rows.cuh>

#include "colours.cuh"

// The edges of a warp's points of one tile: [point][kEdges] in shared memory, -1 past the last of a point.
template <class Plan>
struct TileEdges {
  const int *rowptr, *columns;
  int start = 0, stop = 0;  // the edges of point `lane`

  // Before copy, so that it need not wait for them.
  __device__ void load_rows(int from, int end) {
    const int lane = threadIdx.x % 32;
    start = stop = 0;
    if (from < end && lane < Plan::kPoints) {
      start = rowptr[min(from + lane, end)];
      stop = rowptr[min(from + lane + 1, end)];
    }
  }

  __device__ void copy(int* to) const {
#pragma unroll
    for (int i = threadIdx.x % 32; i < Plan::kPoints * Plan::kEdges; i += 32) {
      const int edge = __shfl_sync(kAllLanes, start, i / Plan::kEdges) + i % Plan::kEdges;
      if (edge < __shfl_sync(kAllLanes, stop, i / Plan::kEdges)) {
        warpwise::mma::cp_async<4>(warpwise::shared_address(to + i), columns + edge, true);
      } else {
        to[i] = -1;
      }
    }
  }
};
