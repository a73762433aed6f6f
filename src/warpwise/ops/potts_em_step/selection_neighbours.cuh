// Sums of the rows of q of neighbours by mma.sync.
//
// B of m16n8k8 has eight columns of eight numbers. Let a column be a pair of domains, and index 2 s + h of the inner
// dimension domain h of the pair in the row of q that edge e of point s of a group has, of points 0 to 3 in one product
// and 4 to 7 in another: a lane's word of two adjacent domains is its part of B as it is. A selects: row (p, h) is the
// weight of edge e of point p at index 2 (p % 4) + h, else 0. So 16 products add the rows of eight neighbours of eight
// points. A product of two numbers is exact, and the accumulator is float32. m16n8k16 would need both words in adjacent
// registers, which takes three moves for two products.
#pragma once

#include "selection_plan.cuh"

// Lane p has the first edge and the number of edges of point p of the tile.
struct TileDegrees {
  int start, degree;
};

// d = a b + c, with c = d, or 0 if it begins a sum.
template <bool BEGINS>
__device__ inline void add_product(float (&d)[4], unsigned a0, unsigned a1, unsigned b) {
  if constexpr (BEGINS) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a0), "r"(a1), "r"(b), "f"(0.0f));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
  }
}

template <int FLIGHT, class Plan, class Lanes, bool WEIGHTED>
struct SelectionNeighbours {
  static constexpr int TILES = Plan::TILES, GROUPS = Plan::kPair, kEdges = Plan::kEdges, kRows = kEdges * GROUPS;
  const Lanes& rows;
  const int *edges, *columns;  // of the points, in shared memory; all in global memory
  const float* weights;
  int group, index;
  TileDegrees degrees;
  int from = 0;  // the first point of GROUPS groups of the tile
  unsigned values[FLIGHT][2][TILES];

  // Rows of edge i / GROUPS of points t and t + 4 of group i % GROUPS: products of adjacent rows have different sums.
  __device__ void load(int i) {
    const int* const of = edges + (i % GROUPS * 8 + index) * kEdges + i / GROUPS;
#pragma unroll
    for (int s = 0; s < 2; ++s) rows.load(values[i % FLIGHT][s], of[4 * kEdges * s]);
  }

  // Moves to the tile whose edges begin at `to` in shared memory; `begin` loads its rows.
  __device__ void move(const int* to) {
    edges = to;
    from = 0;
  }

  // The rows of the groups from point `first` of the tile on, after those before.
  __device__ void begin(int first = 0) {
    edges += (first - from) * kEdges;
    from = first;
#pragma unroll
    for (int i = 0; i < FLIGHT; ++i) load(i);
  }

  // A of points 0 to 3, and of points 4 to 7, whose row of point `group` has `one` of bfloat16 where a lane's columns
  // are those of this point.
  __device__ static void select(unsigned (&selection)[4], unsigned one, int group, int index) {
    const unsigned low = group % 4 == index ? one : 0;
    selection[0] = group < 4 ? low : 0;
    selection[1] = selection[0] << 16;
    selection[2] = group < 4 ? 0 : low;
    selection[3] = selection[2] << 16;
  }

  template <bool BEGINS>
  __device__ void add(float (&around)[TILES][4], const unsigned (&selection)[4], const unsigned (&of)[2][TILES]) const {
#pragma unroll
    for (int m = 0; m < TILES; ++m) add_product<BEGINS>(around[m], selection[0], selection[1], rows.used(m, of[0][m]));
#pragma unroll
    for (int m = 0; m < TILES; ++m) add_product<false>(around[m], selection[2], selection[3], rows.used(m, of[1][m]));
  }

  // An edge of the points of a group that exists if `exists` for point `group`, and is edge `at` of all.
  template <bool BEGINS>
  __device__ void add_edge(float (&around)[TILES][4], bool exists, int at, const unsigned (&of)[2][TILES]) const {
    unsigned selection[4];
    if constexpr (WEIGHTED) {  // three parts of eight bits
      float rest = exists ? weights[at] : 0.0f;
#pragma unroll
      for (int part = 0; part < 3; ++part) {
        const unsigned word = __float_as_uint(rest);
        select(selection, word >> 16, group, index);
        part == 0 ? add<BEGINS>(around, selection, of) : add<false>(around, selection, of);
        rest -= __uint_as_float(word & 0xffff0000u);
      }
    } else {
      select(selection, exists ? 0x3f80u : 0u, group, index);
      add<BEGINS>(around, selection, of);
    }
  }

  // After begin: the sums of the rows of all groups. around[j][m][2 h + x]: point `group` of group j. all: the
  // selection of edges that all points have.
  __device__ void finish(float (&around)[GROUPS][TILES][4], const unsigned (&all)[4]) {
    if (!WEIGHTED && __all_sync(kAllLanes, degrees.degree == kEdges || threadIdx.x % 32 >= Plan::kPoints)) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (i < GROUPS) {
          add<true>(around[i % GROUPS], all, values[i % FLIGHT]);
        } else {
          add<false>(around[i % GROUPS], all, values[i % FLIGHT]);
        }
        if (i + FLIGHT < kRows) load(i + FLIGHT);
      }
    } else {
      finish_any(around);
    }
#pragma unroll
    for (int j = 0; j < GROUPS; ++j) rows.restore(around[j], group, index);
  }

  // Points of any number of edges.
  __device__ void finish_any(float (&around)[GROUPS][TILES][4]) {
    int first[GROUPS], degree[GROUPS];  // of point `group`
#pragma unroll
    for (int j = 0; j < GROUPS; ++j) {
      first[j] = __shfl_sync(kAllLanes, degrees.start, from + 8 * j + group);
      degree[j] = __shfl_sync(kAllLanes, degrees.degree, from + 8 * j + group);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int e = i / GROUPS, j = i % GROUPS;
      if (e == 0) {
        add_edge<true>(around[j], e < degree[j], first[j] + e, values[i % FLIGHT]);
      } else {
        add_edge<false>(around[j], e < degree[j], first[j] + e, values[i % FLIGHT]);
      }
      if (i + FLIGHT < kRows) load(i + FLIGHT);
    }
    const int most = __reduce_max_sync(kAllLanes, GROUPS == 2 ? max(degree[0], degree[GROUPS - 1]) : degree[0]);
    if (most <= kEdges) return;
    constexpr int kMore = FLIGHT / GROUPS;  // edges in flight
    int starts[GROUPS][2], counts[GROUPS][2];
#pragma unroll
    for (int i = 0; i < 2 * GROUPS; ++i) {
      starts[i / 2][i % 2] = __shfl_sync(kAllLanes, degrees.start, from + 8 * (i / 2) + index + 4 * (i % 2));
      counts[i / 2][i % 2] = __shfl_sync(kAllLanes, degrees.degree, from + 8 * (i / 2) + index + 4 * (i % 2));
    }
#pragma unroll 1
    for (int e = kEdges; e < most; e += kMore) {
      int at[kMore * GROUPS][2];
#pragma unroll
      for (int i = 0; i < 2 * kMore * GROUPS; ++i) {
        const int edge = e + i / (2 * GROUPS), j = i / 2 % GROUPS, s = i % 2;
        at[i / 2][s] = edge < counts[j][s] ? columns[starts[j][s] + edge] : edges[0];
      }
#pragma unroll
      for (int i = 0; i < 2 * kMore * GROUPS; ++i) rows.load(values[i / 2][i % 2], at[i / 2][i % 2]);
#pragma unroll
      for (int i = 0; i < kMore * GROUPS; ++i) {
        const int edge = e + i / GROUPS, j = i % GROUPS;
        add_edge<false>(around[j], edge < degree[j], first[j] + edge, values[i]);
      }
    }
  }
};
