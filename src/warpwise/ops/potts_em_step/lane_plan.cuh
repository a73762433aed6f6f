// Sizes and shared memory of k08, in which a lane has all domains of a point.
#pragma once

#include "adjacent_rows.cuh"
#include "block_fill.cuh"
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
    const int own = threadIdx.x;
    const bool exists = own < domains;  // up to eight
    const float offset = exists ? constant[own] : 0.0f, of_all = exists && field ? field[own] : 0.0f;
    fill_zeros<Plan::kThreads>(tiles, 2 * Plan::kTile * Plan::kStride);
    // Fragment `at`, [step][lane].
    const auto load = [&](int at) {
      const int k = at % 32 / 4, d = 16 * (at / 32) + 2 * (at % 4);
      warpwise::Float4 values;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = d + i / 2 * 8 + i % 2;
        values.at[i] = k < domains && column < width ? linear[static_cast<long long>(k) * width + column] : 0.0f;
      }
      return values;
    };
    fill_in_batches<32 * Plan::STEPS, Plan::kThreads>(load, [&](int at, const warpwise::Float4& values) {
      reinterpret_cast<warpwise::Float4*>(coefficients)[at] = coefficient_parts(values, sharpness);
    });
    if (own < 8) {
      offsets[own] = exists ? sharpness * offset : 0.0f;
      fields[own] = exists ? kLog2E * of_all : warpwise::minus_infinity();
    }
  }
};
