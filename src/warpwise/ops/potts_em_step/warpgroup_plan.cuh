// Sizes and shared memory of k09: warpgroups that update points, and one that adds their moments.
#pragma once

#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

#include "selection_plan.cuh"

// A matrix in shared memory for wgmma: units of 8 rows x 128 bytes with the 128-byte swizzle, the UNITS units of 8 rows
// side by side. K-major and MN-major operands are read from the same bytes.
template <int UNITS>
struct SwizzledRows {
  static constexpr int kBytes = 1024 * UNITS;  // of 8 rows

  // The byte of vector `vector` (16 bytes) of a row.
  static __device__ unsigned place(int row, int vector) {
    return row / 8 * kBytes + vector / 8 * 1024 + row % 8 * 128 + (vector ^ row) % 8 * 16;
  }

  static __device__ warpwise::sm90::OperandDescriptor descriptor(const void* first) {
    return {warpwise::shared_address(first), 1024, kBytes};
  }
};

// UPDATERS warpgroups update tiles of 64 points, 16 of a warp; the last warpgroup of the block adds the moments of all
// tiles. A row of features has VECTORS vectors of eight, and 16 TILES is at least the number of domains.
template <int UPDATERS_, int VECTORS, int TILES_>
struct WarpgroupPlan {
  using X = __nv_bfloat16;
  static constexpr bool kExact = true;
  static constexpr int UPDATERS = UPDATERS_, TILES = TILES_, kFull = VECTORS;
  static constexpr int kWarps = 4 * (UPDATERS + 1), kThreads = 32 * kWarps;
  static constexpr int kPair = 2, kHalves = 1, kPoints = 16, kEdges = 8;   // of a warp, as in SelectionPlan
  static constexpr int kRows = 64, kTile = kRows * UPDATERS;               // points of a warpgroup, and of a block
  static constexpr int kSteps = (VECTORS + 1) / 2;                         // wgmma for each part of the coefficients
  static constexpr int kUnits = (VECTORS + 7) / 8, kStride = 32 * kUnits;  // of features; floats of a row
  static constexpr int kUnitsOfQ = (TILES + 3) / 4, kStrideOfQ = 32 * kUnitsOfQ;
  using Features = SwizzledRows<kUnits>;  // coefficients too: a row for each domain
  using Probabilities = SwizzledRows<kUnitsOfQ>;
  static constexpr int kColumns = 16 * TILES;
  static constexpr int kSums = 8 * TILES;  // of a thread for 64 features
  // Sums of a block for 32 lanes: the moments, the counts, and two sums of each warp.
  static constexpr int kCounts = 4 * kUnits * kSums, kMoments = kCounts + (kColumns + 31) / 32;
  static constexpr int kOthers = 2, kSlots = kMoments + kOthers, kParts = 1;

  static __device__ unsigned place(int row, int vector) { return Features::place(row, vector); }

  // All threads.
  static __device__ void sync() { __syncthreads(); }
};

// Shared memory of a block; see warpgroup_tile_of in warpgroup_tiles.py.
template <class Plan>
struct WarpgroupMemory {
  float* tiles;          // features: [side][point], Plan::Features
  float* coefficients;   // [part][domain], Plan::Features; domains in the order of the accumulators (see fill)
  float* q_tiles;        // [updater][point], Plan::Probabilities
  float* sums_of_parts;  // [unit of features][sum / 4][thread][sum % 4]; then [domain], the counts
  int* edges;            // [side][point][edge]
  float* offsets;        // [tile][parity][index][x]
  float* fields;         // [tile][index][parity][x]
  float* others;         // [warp][slot][lane]
  unsigned full, empty;  // mbarriers of each updater: its tile is in shared memory; its moments are added
  static constexpr int kPart = Plan::kColumns * Plan::kStride;  // floats of a part of the coefficients

  __device__ explicit WarpgroupMemory(float* shared) {
    tiles = shared;
    coefficients = tiles + 2 * Plan::kTile * Plan::kStride;
    q_tiles = coefficients + 2 * kPart;
    sums_of_parts = q_tiles + Plan::kTile * Plan::kStrideOfQ;
    edges = reinterpret_cast<int*>(sums_of_parts + 32 * Plan::kMoments);
    offsets = sums_of_parts + 32 * Plan::kMoments + 2 * Plan::kTile * Plan::kEdges;
    fields = offsets + Plan::kColumns;
    others = fields + Plan::kColumns;
    full = warpwise::shared_address(others + 32 * Plan::kOthers * Plan::kWarps);
    empty = full + 8 * Plan::UPDATERS;
  }

  // All logits are in units of log 2. `field`: external of all points, or null. Column 16 m + 8 h + 2 index + x of the
  // scores is domain (m, index, h, x) of RowLanes, so that lanes have the domains that they load from rows of q.
  __device__ void fill(const float* linear, const float* constant, const float* field, int domains, int width,
                       float sharpness) const {
    static_assert(Plan::kColumns <= Plan::kThreads, "a thread has one domain");
    const CommonOfDomain<Plan::TILES> common(constant, field, domains);
    constexpr int kVectors = 2 * Plan::kSteps;  // of a row
    const auto load = [&](int at) {
      const int column = at / kVectors, d = at % kVectors * 8;
      const int k = RowLanes<Plan::TILES>::domain(column / 16, column / 2 % 4, column / 8 % 2, column % 2);
      EightCoefficients values;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        values.at[i] = k < domains && d + i < width ? linear[static_cast<long long>(k) * width + d + i] : 0.0f;
      }
      return values;
    };
    fill_in_batches<Plan::kColumns * kVectors, Plan::kThreads>(load, [&](int at, const EightCoefficients& values) {
      const unsigned place = Plan::place(at / kVectors, at % kVectors) / 4;
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        *reinterpret_cast<warpwise::Float4*>(coefficients + part * kPart + place) = values.part(part, sharpness);
      }
    });
    fill_zeros<Plan::kThreads>(tiles, 2 * Plan::kTile * Plan::kStride);
    fill_zeros<Plan::kThreads>(sums_of_parts, 32 * Plan::kMoments);
    common.store(offsets, fields, sharpness);
    for (int i = 0; threadIdx.x == 0 && i < Plan::UPDATERS; ++i) {
      warpwise::sm90::mbarrier_init(full + 8 * i, 4);  // the warps of an updater
      warpwise::sm90::mbarrier_init(empty + 8 * i, 4);
    }
    warpwise::sm90::fence_proxy_async();  // wgmma reads features and coefficients
  }
};
