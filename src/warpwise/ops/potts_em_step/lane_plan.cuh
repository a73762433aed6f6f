// Sizes and shared memory of k08, in which a lane has all domains of a point.
#pragma once

#include "adjacent_rows.cuh"
#include "selection_plan.cuh"

// VECTORS of eight features are at least `width`; a step of the products has two.
template <int WARPS, int VECTORS>
struct LanePlan : AdjacentRows<VECTORS> {
  using X = __nv_bfloat16;
  static constexpr bool kExact = true;
  static constexpr int kWarps = WARPS, kThreads = 32 * WARPS, kParts = WARPS;
  static constexpr int kPair = 2, kHalves = 2;  // groups of eight points of a product; products
  static constexpr int kPoints = 32, kTile = WARPS * kPoints, kEdges = 8;
  static constexpr int kFull = VECTORS, kStride = 4 * VECTORS, STEPS = (VECTORS + 1) / 2;
  static constexpr int kMoments = 4 * STEPS, kOthers = 4, kSlots = kMoments + kOthers;  // sums of a lane

  // Element `domain`, a multiple of four, of the scores of point `point`, in rows of eight floats.
  static __device__ int score_at(int point, int domain) { return AdjacentRows<2>::place(point, domain / 4) / 4; }
  static __device__ void sync() { __syncthreads(); }
};

// Shared memory of a block; see lane_tile in lane_tiles.py.
template <class Plan>
struct LaneMemory {
  float* coefficients;   // [step][lane][4]: fragments, two words of each part
  float* offsets;        // [domain]
  float* fields;         // [domain]
  float* scores;         // [warp][point][domain]
  float* tiles;          // [side][point][stride]
  int* edges;            // [side][point][edge]
  float* sums_of_parts;  // [warp][step][lane][4]; at the end
  float* others;         // [warp][slot][lane]

  __device__ explicit LaneMemory(float* shared) {
    coefficients = shared;
    offsets = coefficients + 128 * Plan::STEPS;
    fields = offsets + 8;
    scores = fields + 8;
    tiles = scores + 8 * Plan::kTile;
    edges = reinterpret_cast<int*>(tiles + 2 * Plan::kTile * Plan::kStride);
    sums_of_parts = shared;
    others = sums_of_parts + 32 * Plan::kMoments * Plan::kWarps;
  }

  // All logits are in units of log 2. `field`: external of all points, or null.
  __device__ void fill(const float* linear, const float* constant, const float* field, int domains, int width,
                       float sharpness) const {
    for (int i = threadIdx.x; i < 64 * Plan::STEPS; i += Plan::kThreads) {
      const int e = i % 2, of = i / 2 % 32, step = i / 64;
      const int k = of / 4, d = 16 * step + 2 * (of % 4) + 8 * e;
      const auto at = [&](int d) {
        return k < domains && d < width ? sharpness * linear[static_cast<long long>(k) * width + d] : 0.0f;
      };
      const float first = at(d), second = at(d + 1);
      float* const to = coefficients + i / 2 * 4 + e;
      to[0] = coefficient_part(0, first, second);
      to[2] = coefficient_part(1, first, second);
    }
    if (threadIdx.x < 8) {
      const int k = threadIdx.x;
      offsets[k] = k < domains ? sharpness * constant[k] : 0.0f;
      fields[k] = k >= domains ? warpwise::minus_infinity() : field ? kLog2E * field[k] : 0.0f;
    }
    for (int i = threadIdx.x; i < 2 * Plan::kTile * Plan::kStride; i += Plan::kThreads) tiles[i] = 0.0f;
  }
};
