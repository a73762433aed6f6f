// Sizes and shared memory of k03: which lane has which points and domains.
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

// LANES * 4 is at least domains, and equal to it if FULL; ROWS * 16 is at least width.
template <int LANES_, int ROWS_, bool FULL_>
struct WarpPlan {
  static constexpr int LANES = LANES_, ROWS = ROWS_;
  static constexpr bool FULL = FULL_;
  static constexpr int kTile = tile_points(ROWS), kPass = 32 / LANES, kOwn = 4, kSteps = 2 * ROWS;
  static constexpr int kPoints = (kTile + kPass - 1) / kPass;  // of a lane
  static constexpr int kQStride = LANES == 2 ? 8 : 12;         // lanes read all halves of adjacent rows, or one of each
  static constexpr int kWords = 9 * kTile;  // eight edges of each point, which lanes read nine words apart
  static constexpr int kMoments = 16 * ROWS * kDomains, kSums = kMoments + kDomains + 2;  // of a warp
  static_assert(LANES * kOwn <= kDomains, "a tile of mma.sync has eight domains");
  static_assert(kPoints * kPass == kTile, "no lane is idle");
};

// Shared memory of a warp; see warp_tile_of in tiles.py. The first three are those of the block.
template <class Plan>
struct WarpMemory {
  float* coefficients;  // [step][lane][4]: operand B, and the rests of its TF32 numbers
  float* offsets;       // (kDomains)
  float* fields;        // (kDomains)
  float* q_tile;        // (kTile, kQStride)
  int* edges;           // (kWords)
  float* tiles;         // [side][point][stride]

  __device__ WarpMemory(float* shared, int warp, int stride) {
    coefficients = shared;
    offsets = coefficients + 128 * Plan::kSteps;
    fields = offsets + kDomains;
    q_tile = fields + kDomains + warp * (Plan::kTile * Plan::kQStride + Plan::kWords + 2 * Plan::kTile * stride);
    edges = reinterpret_cast<int*>(q_tile + Plan::kTile * Plan::kQStride);
    tiles = q_tile + Plan::kTile * Plan::kQStride + Plan::kWords;
  }

  // All logits are in units of log 2. linear: (domains, width). `field`: external of all points, or null.
  __device__ void fill(const float* linear, const float* constant, const float* field, int domains, int width,
                       float sharpness) const {
    for (int i = threadIdx.x; i < 64 * Plan::kSteps; i += kThreads) {
      const int k = i / 8 % 8, d = i / 64 * 8 + i % 8;  // lane 4 k + d % 4, half d / 4 % 2
      const float value = k < domains && d < width ? sharpness * linear[k * width + d] : 0.0f;
      float* const to = coefficients + (i / 64 * 32 + 4 * k + d % 4) * 4 + d / 4 % 2;
      to[0] = value;
      to[2] = __uint_as_float(warpwise::rest_of_tf32(value));
    }
    if (threadIdx.x < kDomains) {
      const int k = threadIdx.x;
      fields[k] = !field || k >= domains ? 0.0f : kLog2E * field[k];
      offsets[k] = k < domains ? sharpness * constant[k] : 0.0f;
    }
    for (int i = threadIdx.x % 32; i < Plan::kTile * Plan::kQStride; i += 32) q_tile[i] = 0.0f;
  }
};
