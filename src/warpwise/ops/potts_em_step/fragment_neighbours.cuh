// Sums of the rows of q of a point's neighbours, in the lanes that have the point.
#pragma once

#include "fragment_plan.cuh"

// The edges of a point: `count` from `first` on, of which the first are in shared memory. full: all eight points of the
// warp have kEdges or more; many: one has more.
struct FragmentEdges {
  const int* copied;
  int first, count;
  bool full, many;
};

// A lane loads FLIGHT rows of q before it adds the first.
template <int FLIGHT, class Plan, class Lane>
__device__ inline void add_neighbours(float (&around)[Plan::TILES][2], const Lane& rows, const FragmentEdges& edges,
                                      const int* columns, const float* weights) {
  const auto add = [&](auto all, int n) {  // edges n to n + FLIGHT
    float values[FLIGHT][Plan::TILES][2];
#pragma unroll
    for (int e = 0; e < FLIGHT; ++e) rows.load(values[e], edges.copied[n + e], all || edges.copied[n + e] >= 0);
#pragma unroll
    for (int e = 0; e < FLIGHT; ++e) {
      const float weight = weights && (all || edges.copied[n + e] >= 0) ? weights[edges.first + n + e] : 1.0f;
      rows.add(around, weight, values[e]);
    }
  };
  if (edges.full) {
#pragma unroll
    for (int n = 0; n < Plan::kEdges; n += FLIGHT) add(True(), n);
  } else {
#pragma unroll 1
    for (int n = 0; n < Plan::kEdges; n += FLIGHT) add(False(), n);
  }
  for (int n = Plan::kEdges; edges.many && n < edges.count; ++n) {
    float values[Plan::TILES][2];
    rows.load(values, columns[edges.first + n], true);
    rows.add(around, weights ? weights[edges.first + n] : 1.0f, values);
  }
}
