// Edges of a warp's tile, copied ahead, and the sums of rows of q of a lane's points.
#pragma once

#include "warp_plan.cuh"

// cp.async of from[i], i = FIRST, FIRST + 32, ... below COUNT and `total`, to word i + i / 8 from `to`. All offsets are
// in the instructions.
template <int FIRST, int COUNT>
__device__ inline void copy_words(unsigned to, const int* from, int total) {
  if (FIRST < total) {
    asm volatile("cp.async.ca.shared.global [%0 + %2], [%1 + %3], 4;" ::"r"(to), "l"(from),
                 "n"(4 * (FIRST + FIRST / 8)), "n"(4 * FIRST)
                 : "memory");
  }
  if constexpr (FIRST + 32 < COUNT) copy_words<FIRST + 32, COUNT>(to, from, total);
}

// Features, row pointers and columns of a warp's next tile.
template <class Plan>
struct WarpFetch {
  static constexpr int kTile = Plan::kTile;
  const WarpMemory<Plan>& memory;
  const int *rowptr, *columns;
  warpwise::WarpCopy<kTile> copy;
  int lane, start = 0, stop = 0;  // of the edges of point `lane`

  __device__ WarpFetch(const WarpMemory<Plan>& to, const float* features, int width, const int* rows, const int* at)
      : memory(to), rowptr(rows), columns(at), copy(features, width), lane(threadIdx.x % 32) {}

  // Points past `end` have zeros and no edges.
  __device__ void operator()(int from, int end, int buffer) {
    start = stop = 0;
    if (end > 0) {
      copy(memory.tiles + buffer * kTile * copy.stride, from, end);
      start = rowptr[min(from + lane, end)];
      stop = rowptr[min(from + lane + 1, end)];
    }
    __pipeline_commit();
  }

  // The edges of a tile are adjacent.
  __device__ void copy_edges() const {
    const int begin = __shfl_sync(kAllLanes, start, 0);
    const int total = __shfl_sync(kAllLanes, stop, kTile - 1) - begin - lane;
    const unsigned to = warpwise::shared_address(memory.edges + lane + lane / 8);
    copy_words<0, kEdges * kTile>(to, columns + begin + lane, total);
    __pipeline_commit();
  }
};

// The edges of a tile, of which the first of each point are in shared memory if `copied`.
struct WarpEdges {
  int starts, degrees, begin;  // of point `lane`; the first edge
  bool copied;

  template <class Plan>
  __device__ explicit WarpEdges(const WarpFetch<Plan>& next) {
    starts = next.start;
    degrees = next.stop - next.start;
    begin = __shfl_sync(kAllLanes, starts, 0);
    const bool full = __all_sync(kAllLanes, next.lane >= Plan::kTile || degrees >= kEdges);
    const bool fit = __all_sync(kAllLanes, next.lane >= Plan::kTile || next.stop - begin <= kEdges * Plan::kTile);
    copied = full && fit;
  }
};

template <class Plan, bool VECTOR>
struct WarpNeighbours {
  static constexpr int kOwn = Plan::kOwn, kPoints = Plan::kPoints;
  const char *lanes, *zeros;  // the lane's first domain in row 0 of q, and in a row of zeros
  unsigned row_bytes;
  int valid;  // the lane's domains
  const int* columns;
  const float* weights;

  // Row `at` of q, or zeros if it is negative: loaded too, since loads in flight must complete where lanes that branch
  // meet again.
  __device__ warpwise::Float4 load(int at) const {
    const char* const from = at >= 0 ? row_at(lanes, at, row_bytes) : zeros;
    return warpwise::load4<VECTOR>(reinterpret_cast<const float*>(from), valid);
  }

  __device__ void add(float (&support)[kOwn], const warpwise::Float4 (&rows)[kEdges], int edge, int count) const {
#pragma unroll
    for (int n = 0; n < kEdges; ++n) {
      const float weight = weights && n < count ? weights[edge + n] : 1.0f;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) support[i] += weight * rows[n].at[i];
    }
  }

  // Adds the rows of the neighbours of the lane's points.
  __device__ void operator()(float (&support)[kPoints][kOwn], const WarpEdges& edges, const int* in_shared) const {
    int start[kPoints], degree[kPoints], column[kPoints][kEdges];
#pragma unroll
    for (int j = 0; j < kPoints; ++j) {
      const int place = threadIdx.x % 32 / Plan::LANES + Plan::kPass * j;
      start[j] = __shfl_sync(kAllLanes, edges.starts, place);
      degree[j] = __shfl_sync(kAllLanes, edges.degrees, place);
    }
    if (edges.copied) {
#pragma unroll
      for (int j = 0; j < kPoints; ++j) {
        const unsigned before = start[j] - edges.begin;
        const int* const at = in_shared + before + before / 8;
#pragma unroll
        for (int n = 0; n < kEdges; ++n) column[j][n] = (n < kEdges - before % 8 ? at : at + 1)[n];
      }
    } else {
#pragma unroll
      for (int j = 0; j < kPoints; ++j) {
#pragma unroll
        for (int n = 0; n < kEdges; ++n) column[j][n] = n < degree[j] ? columns[start[j] + n] : -1;
      }
    }
    warpwise::Float4 rows[kPoints][kEdges];
#pragma unroll
    for (int j = 0; j < kPoints; ++j) {
#pragma unroll
      for (int n = 0; n < kEdges; ++n) rows[j][n] = load(column[j][n]);
    }
#pragma unroll
    for (int j = 0; j < kPoints; ++j) add(support[j], rows[j], start[j], degree[j]);
#pragma unroll
    for (int j = 0; j < kPoints; ++j) {
      for (int n = kEdges; n < degree[j]; n += kEdges) {
#pragma unroll
        for (int i = 0; i < kEdges; ++i) rows[j][i] = load(n + i < degree[j] ? columns[start[j] + n + i] : -1);
        add(support[j], rows[j], start[j] + n, degree[j] - n);
      }
    }
  }
};
