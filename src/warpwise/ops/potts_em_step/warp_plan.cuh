// Sizes of k03: which lane has which points and domains.
#pragma once

#include <warpwise/sm80/copy_rows.cuh>
#include <warpwise/sm80/tf32.cuh>

#include "colours.cuh"
#include "fragments.cuh"

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kDomains = 8;
constexpr int kEdges = 8;  // per point, in flight

// Two lanes have a point with more than four domains, so that adjacent lanes load adjacent halves of rows of q, and
// with more than 32 features, for which a tile has 16 points, so that more warps fit on an SM.
constexpr int tile_points(int rows) { return rows > 2 ? 16 : 32; }

// Limited by the registers of a lane: four sums per 16 features, and the neighbours in flight.
constexpr int blocks_an_sm(int rows) { return rows > 8 ? 2 : rows > 4 ? 3 : 4; }
