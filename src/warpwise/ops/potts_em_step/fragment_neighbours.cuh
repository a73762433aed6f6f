// Sums of the rows of q of a point's neighbours, in the lanes that have the point.
#pragma once

#include "fragment_plan.cuh"

// The edges of a point: `count` from `first` on, of which the first are in shared memory, -1 past the last. many: one
// of the eight points of the warp has more than kEdges.
struct FragmentEdges {
  const int* copied;
  int first, count;
  bool many;
};

// FLIGHT rows of q, which a lane loads before it adds the first. The first ones are loaded while the warp computes
// scores, or the softmax of the point before.
template <int FLIGHT, class Plan, class Lane>
struct FragmentNeighbours {
  float values[FLIGHT][Plan::TILES][2];

  __device__ void begin(const Lane& rows, const FragmentEdges& edges, int n = 0) {
#pragma unroll
    for (int e = 0; e < FLIGHT; ++e) rows.load(values[e], edges.copied[n + e]);
  }

  // After begin: adds all rows to `around`.
  __device__ void finish(float (&around)[Plan::TILES][2], const Lane& rows, const FragmentEdges& edges,
                         const int* columns, const float* weights) {
#pragma unroll
    for (int n = 0; n < Plan::kEdges; n += FLIGHT) {
      if (n > 0) begin(rows, edges, n);
#pragma unroll
      for (int e = 0; e < FLIGHT; ++e) {
        const float weight = weights && n + e < edges.count ? weights[edges.first + n + e] : 1.0f;
        rows.add(around, weight, values[e]);
      }
    }
    for (int n = Plan::kEdges; edges.many && n < edges.count; ++n) {
      float row[Plan::TILES][2];
      rows.load(row, columns[edges.first + n]);
      rows.add(around, weights ? weights[edges.first + n] : 1.0f, row);
    }
  }
};
