// Sums of the rows of q of neighbours by mma.sync, for rows of eight adjacent lanes.
#pragma once

#include "eight_lanes.cuh"
#include "selection_neighbours.cuh"

// A warp's 16 points are four sets of four: a load has the rows of one edge of a set, of point 4 s + l / 8 in lane l.
template <int FLIGHT, class Plan, class Lanes>
struct EightNeighbours {
  static constexpr int TILES = Plan::TILES, kEdges = Plan::kEdges, kSets = 4, kRows = kEdges * kSets;
  using Sums = float[kSets][TILES / 2][4];  // [set][tile / 2][2 h + tile % 2], of point 4 set + index
  const Lanes& rows;
  const int *edges, *columns;  // of the points, in shared memory; all in global memory
  unsigned even[2], odd[2];    // A for even and odd words
  TileDegrees degrees;
  unsigned values[FLIGHT][TILES];
  int four[4];  // edges of a point, of which the next is loaded

  __device__ EightNeighbours(const Lanes& of, const int* at, int group, int index) : rows(of), columns(at) {
    unsigned all[4];
    SelectionNeighbours<1, Plan, Lanes, false>::select(all, 0x3f80, group, index);
    even[0] = all[0];
    even[1] = all[1];
    odd[0] = all[2];
    odd[1] = all[3];
  }

  // Edge i % kEdges of set i / kEdges; i is one after that of the load before.
  __device__ void load(int i) {
    if (i % 4 == 0) {
      const int point = i / kEdges * 4 + threadIdx.x % 32 / 8;
      const int4 next = *reinterpret_cast<const int4*>(edges + point * kEdges + i % kEdges);
      four[0] = next.x;
      four[1] = next.y;
      four[2] = next.z;
      four[3] = next.w;
    }
    rows.load(values[i % FLIGHT], four[i % 4]);
  }

  // `of`: the edges of the points.
  __device__ void begin(const int* of) {
    edges = of;
#pragma unroll
    for (int i = 0; i < FLIGHT; ++i) load(i);
  }

  template <bool BEGINS>
  __device__ void add(float (&sums)[TILES / 2][4], const unsigned (&of)[TILES]) const {
#pragma unroll
    for (int p = 0; p < TILES / 2; ++p) add_product<BEGINS>(sums[p], even[0], even[1], of[2 * p]);
#pragma unroll
    for (int p = 0; p < TILES / 2; ++p) add_product<false>(sums[p], odd[0], odd[1], of[2 * p + 1]);
  }

  // A row of an edge that exists only in the lanes where `exists`.
  template <bool BEGINS>
  __device__ void add_if(float (&sums)[TILES / 2][4], bool exists, const unsigned (&of)[TILES]) const {
    unsigned masked[TILES];
#pragma unroll
    for (int m = 0; m < TILES; ++m) masked[m] = exists ? of[m] : 0;
    add<BEGINS>(sums, masked);
  }

  // After begin: the sums of the rows of all points.
  __device__ void finish(Sums& around) {
    if (__all_sync(kAllLanes, degrees.degree == kEdges || threadIdx.x % 32 >= Plan::kPoints)) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        i % kEdges == 0 ? add<true>(around[i / kEdges], values[i % FLIGHT])
                        : add<false>(around[i / kEdges], values[i % FLIGHT]);
        if (i + FLIGHT < kRows) load(i + FLIGHT);
      }
    } else {
      finish_any(around);
    }
  }

  // Points of any number of edges.
  __device__ void finish_any(Sums& around) {
    int degree[kSets];  // of the lane's point of each set
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      degree[s] = __shfl_sync(kAllLanes, degrees.degree, 4 * s + threadIdx.x % 32 / 8);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int s = i / kEdges, e = i % kEdges;
      e == 0 ? add_if<true>(around[s], e < degree[s], values[i % FLIGHT])
             : add_if<false>(around[s], e < degree[s], values[i % FLIGHT]);
      if (i + FLIGHT < kRows) load(i + FLIGHT);
    }
    const int most = __reduce_max_sync(kAllLanes, threadIdx.x % 32 < Plan::kPoints ? degrees.degree : 0);
    if (most <= kEdges) return;
    int start[kSets];
#pragma unroll
    for (int s = 0; s < kSets; ++s) start[s] = __shfl_sync(kAllLanes, degrees.start, 4 * s + threadIdx.x % 32 / 8);
    constexpr int kMore = FLIGHT / kSets;  // edges in flight
#pragma unroll 1
    for (int e = kEdges; e < most; e += kMore) {
      int at[kMore * kSets];
#pragma unroll
      for (int i = 0; i < kMore * kSets; ++i) {
        const int s = i % kSets, edge = e + i / kSets;
        at[i] = edge < degree[s] ? columns[start[s] + edge] : edges[0];
      }
#pragma unroll
      for (int i = 0; i < kMore * kSets; ++i) rows.load(values[i], at[i]);
#pragma unroll
      for (int i = 0; i < kMore * kSets; ++i)
        add_if<false>(around[i % kSets], e + i / kSets < degree[i % kSets], values[i]);
    }
  }
};
