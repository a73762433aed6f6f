// Sizes and shared memory of k04: which warp has which points, domains and moments.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/sm80/copy_rows.cuh>

#include "colours.cuh"
#include "fragments.cuh"
#include "tile_edges.cuh"

// TILES * 16 is at least the number of domains, STEPS * 8 at least that of features. With WARPS_N == 0 a warp has the
// moments of its own points; else a warp has up to MI x NI of the TILES x STEPS tiles of the moments of all points of
// the block, and WARPS_N warps have other features.
template <int WARPS, int TILES_, int STEPS_, int WARPS_N>
struct FragmentPlan {
  static constexpr int kWarps = WARPS, kThreads = 32 * WARPS, TILES = TILES_, STEPS = STEPS_, kHeld = 16 * TILES;
  static constexpr int kEdges = 8;   // of a point, copied to shared memory one tile ahead
  static constexpr int kPoints = 8;  // of a warp's tile
  static constexpr int kTile = WARPS * kPoints, kStride = warpwise::tile_stride(8 * STEPS);
  static constexpr int kMoments = 4 * TILES * STEPS, kOthers = 2 * TILES + 2;  // sums of a lane
  static constexpr int kSlots = kMoments + kOthers;
  static constexpr bool kOwn = WARPS_N == 0;
  static constexpr int kWarpsM = kOwn || TILES <= 3 ? 1 : TILES <= 6 ? 2 : 4;
  static constexpr int MI = (TILES + kWarpsM - 1) / kWarpsM;
  static constexpr int NI = kOwn ? STEPS : (STEPS + WARPS_N - 1) / (kOwn ? 1 : WARPS_N);
  static constexpr int kChunk = NI;  // steps of moments that are added at a time
  static constexpr int kWarpsN = kOwn ? 1 : WARPS_N, kSharing = kWarpsM * kWarpsN;
  static constexpr int kParts = WARPS / kSharing;  // of the points of a tile

  // All threads that update points.
  static __device__ void sync() { __syncthreads(); }
};

// offsets and fields: [tile][group][2], in units of log 2. `field`: external of all points, or null. All THREADS.
template <class Lane, int TILES, int THREADS>
__device__ inline void fill_offsets(float* offsets, float* fields, const float* constant, const float* field,
                                    int domains, float sharpness) {
  for (int i = threadIdx.x; i < 16 * TILES; i += THREADS) {
    const int k = Lane::domain(i / 16, i / 2 % 8, i % 2);
    fields[i] = k >= domains ? warpwise::minus_infinity() : field ? kLog2E * field[k] : 0.0f;
    offsets[i] = k < domains ? sharpness * constant[k] + fields[i] : warpwise::minus_infinity();
  }
}

// Shared memory of a block; see fragment_tile_of in tiles.py.
template <class Plan>
struct FragmentMemory {
  float* coefficients;   // [step][tile][lane][4]: fragments
  float* offsets;        // [tile][group][2]
  float* fields;         // [tile][group][2]
  float* tiles;          // [side][point][stride]
  int* edges;            // [side][point][edge]
  float* q_tiles;        // if warps share moments: [side][tile][warp][lane][4]
  float* sums_of_parts;  // [part][tile of moments][lane][4]
  float* others;         // [warp][slot][lane]

  __device__ explicit FragmentMemory(float* shared) {
    coefficients = shared;
    offsets = coefficients + 8 * Plan::STEPS * Plan::kHeld;
    fields = offsets + Plan::kHeld;
    tiles = fields + Plan::kHeld;
    edges = reinterpret_cast<int*>(tiles + 2 * Plan::kTile * Plan::kStride);
    q_tiles = tiles + 2 * Plan::kTile * (Plan::kStride + Plan::kEdges);
    sums_of_parts = Plan::kOwn ? q_tiles : shared;
    others = sums_of_parts + 32 * Plan::kMoments * Plan::kParts;
  }

  __device__ float offset(int m, int group, int h) const { return offsets[(8 * m + group) * 2 + h]; }

  // All logits are in units of log 2. `field`: external of all points, or null.
  template <class Lane>
  __device__ void fill(const float* linear, const float* constant, const float* field, int domains, int width,
                       float sharpness) const {
#pragma unroll 8
    for (int i = threadIdx.x; i < 8 * Plan::STEPS * Plan::kHeld; i += Plan::kThreads) {  // eight loads in flight
      const int element = i % 4, of = i / 4 % 32, m = i / 128 % Plan::TILES, step = i / (128 * Plan::TILES);
      const int k = Lane::domain(m, of / 4, element % 2), d = 8 * step + of % 4 * 2 + element / 2;
      coefficients[i] = k < domains && d < width ? sharpness * linear[static_cast<long long>(k) * width + d] : 0.0f;
    }
    fill_offsets<Lane, Plan::TILES, Plan::kThreads>(offsets, fields, constant, field, domains, sharpness);
    for (int i = threadIdx.x; i < 2 * Plan::kTile * Plan::kStride; i += Plan::kThreads) tiles[i] = 0.0f;
    for (int i = threadIdx.x; Plan::kOwn && i < 32 * Plan::kMoments * Plan::kParts; i += Plan::kThreads) {
      sums_of_parts[i] = 0.0f;
    }
  }
};

// The features, and the first neighbours, of a warp's points of the next tile, copied while the present one is updated.
template <class Plan>
struct FragmentCopy {
  const FragmentMemory<Plan>& memory;
  TileEdges<Plan> edges;
  warpwise::WarpCopy<Plan::kPoints> features;
  int own;  // the warp's first point

  __device__ FragmentCopy(const FragmentMemory<Plan>& to, const float* x, int width, const int* rows, const int* at)
      : memory(to), edges{rows, at}, features(x, width), own(threadIdx.x / 32 * Plan::kPoints) {
    features.stride = Plan::kStride;
  }

  __device__ void load_rows(int first, int end) { edges.load_rows(first + own, end); }

  __device__ void copy(int side, int first, int end) const {
    const int place = side * Plan::kTile + own;
    edges.copy(memory.edges + place * Plan::kEdges);
    features(memory.tiles + place * Plan::kStride, first + own, end);
    __pipeline_commit();
  }
};
