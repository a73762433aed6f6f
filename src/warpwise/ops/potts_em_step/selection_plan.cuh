// Sizes and shared memory of k07: which warp has which points and moments. k08 to k10 share parts of them.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/sm80/copy_rows.cuh>
#include <warpwise/sm80/tf32.cuh>

#include "adjacent_rows.cuh"
#include "block_fill.cuh"
#include "colours.cuh"
#include "fragments.cuh"
#include "row_lanes.cuh"
#include "tile_edges.cuh"

// A warp's tile has GROUPS groups of eight points; one product of the scores takes kPair groups. 16 TILES is at least
// the number of domains, and kColumns STEPS that of features: a step has eight words of a row, which are eight floats
// or 16 numbers of bfloat16 (X). The moments have FEATURES tiles of eight columns. One column is 1 in all rows and
// gives the counts: column one(words). For float it is in the last tile of features, or in an extra tile if they fill
// all STEPS; for bfloat16 always in an extra tile. WARPS_N == 0: a warp computes the moments of its own points. Else
// the warps of a block share the moments: WARPS_M x WARPS_N warps, each with up to MI x NI tiles of 16 domains and 8
// columns. RESTS: the rests of the coefficients are in shared memory too, as they always are for bfloat16. KEEPS:
// moments stay in registers; those of a warp's own points are added to shared memory every kKept tiles.
template <class X_, int WARPS, int GROUPS_, int TILES_, int STEPS_, int FEATURES_, int WARPS_M, int WARPS_N,
          bool RESTS_, bool KEEPS_, bool DEFERS>
struct SelectionPlan : AdjacentRows<sizeof(X_) == 2 ? FEATURES_ - 1 : STEPS_> {
  using X = X_;
  static constexpr bool kExact = sizeof(X) == 2;  // bfloat16: a feature is an operand of mma.sync, not a sum of several
  static constexpr int kInWord = 4 / sizeof(X), kColumns = 8 * kInWord;
  static constexpr int kFull = kExact ? FEATURES_ - 1 : STEPS_;  // tiles of features without that of the counts
  static constexpr int kWarps = WARPS, kThreads = 32 * WARPS, GROUPS = GROUPS_, TILES = TILES_, STEPS = STEPS_,
                       FEATURES = FEATURES_;
  static constexpr bool RESTS = RESTS_, KEEPS = KEEPS_;
  static constexpr int kEdges = 8;  // of a point, copied to shared memory one tile ahead
  static constexpr int kPair = GROUPS < 2 ? 1 : 2, kHalves = GROUPS / kPair;
  static constexpr int kPoints = 8 * GROUPS, kTile = WARPS * kPoints;
  static constexpr int kStride = kExact ? 4 * kFull : warpwise::tile_stride(8 * STEPS);
  static constexpr int kSides = WARPS_N > 0 && DEFERS ? 3 : 2;  // tiles of features
  static constexpr int kOf = RESTS ? 4 : 2;                     // floats of a lane in a fragment of coefficients
  static constexpr int kMoments = 4 * TILES * FEATURES, kOthers = 2, kSlots = kMoments + kOthers;  // sums of a lane
  static constexpr bool kOwn = WARPS_N == 0;
  static constexpr int kWarpsM = kOwn ? 1 : WARPS_M;
  static constexpr int MI = (TILES + kWarpsM - 1) / kWarpsM;
  static constexpr int NI = kOwn ? FEATURES : (FEATURES + WARPS_N - 1) / (kOwn ? 1 : WARPS_N);
  static constexpr int kWarpsN = kOwn ? 1 : WARPS_N, kSharing = kWarpsM * kWarpsN;
  static constexpr int kParts = WARPS / kSharing;  // of the points of a tile
  static_assert(RESTS || !kExact, "coefficients are two numbers of bfloat16");
  static_assert(kOwn || kHalves == 1, "warps that share moments exchange the q of 16 points");

  // The column of ones: the first after the vectors of 16 bytes that hold `words` words.
  static __device__ int one(int words) { return (words + 3) / 4 * 4 * kInWord; }

  // The point of a column of q^T, and the domain of row `row` + 8 `upper` of tile m of the moments.
  static __device__ int point_at(int column) { return column; }
  static __device__ int domain_of(int m, int row, int upper) {
    return RowLanes<TILES>::domain(m, row / 2, row % 2, upper);
  }

  // All threads.
  static __device__ void sync() { __syncthreads(); }
};

// What all points have in common of one domain, for which a thread fills its place in shared memory: the constant of
// the scores and the field. Threads below 16 TILES have one each.
template <int TILES>
struct CommonOfDomain {
  bool exists;
  float offset, field;

  // all_fields: external of all points, or null.
  __device__ CommonOfDomain(const float* constant, const float* all_fields, int domains) {
    const int own = threadIdx.x, k = RowLanes<TILES>::domain(own / 16, own / 4 % 4, own / 2 % 2, own % 2);
    exists = own < 16 * TILES && k < domains;
    offset = exists ? constant[k] : 0.0f;
    field = exists && all_fields ? all_fields[k] : 0.0f;
  }

  // offsets: [tile][parity][index][x]; fields: [tile][index][parity][x]. In units of log 2.
  __device__ void store(float* offsets, float* fields, float sharpness) const {
    const int own = threadIdx.x;
    if (own >= 16 * TILES) return;
    fields[own] = exists ? kLog2E * field : warpwise::minus_infinity();
    offsets[(own / 16 * 8 + own / 2 % 2 * 4 + own / 4 % 4) * 2 + own % 2] =
        exists ? sharpness * offset + kLog2E * field : warpwise::minus_infinity();
  }
};

// Shared memory of a block; see selection_tile in selection_tiles.py.
template <class Plan>
struct SelectionMemory {
  float* coefficients;   // [step][tile][parity][lane][kOf]: fragments
  float* offsets;        // [tile][parity][index][x]
  float* fields;         // [tile][index][parity][x]
  float* tiles;          // [side][point][stride]
  int* edges;            // [side][point][edge]
  unsigned* q_tiles;     // if warps share moments: [side][tile][warp][lane][4]
  float* sums_of_parts;  // [part][tile of moments][lane][4]; of a block that KEEPS them, in place of all others
  float* others;         // [warp][slot][lane]

  __device__ explicit SelectionMemory(float* shared) {
    coefficients = shared;
    offsets = coefficients + 64 * Plan::kOf * Plan::STEPS * Plan::TILES;
    fields = offsets + 16 * Plan::TILES;
    tiles = fields + 16 * Plan::TILES;
    edges = reinterpret_cast<int*>(tiles + Plan::kSides * Plan::kTile * Plan::kStride);
    float* const after = tiles + Plan::kTile * (Plan::kSides * Plan::kStride + 2 * Plan::kEdges);
    q_tiles = reinterpret_cast<unsigned*>(after);
    sums_of_parts = Plan::kOwn ? after : Plan::KEEPS ? shared : after + 256 * Plan::TILES * Plan::kWarps;
    others = sums_of_parts + 32 * Plan::kMoments * Plan::kParts;
  }

  // All logits are in units of log 2. `field`: external of all points, or null. words: of four bytes in a row of
  // features.
  __device__ void fill(const float* linear, const float* constant, const float* field, int domains, int width,
                       int words, float sharpness) const {
    using Lanes = RowLanes<Plan::TILES>;
    static_assert(16 * Plan::TILES <= Plan::kThreads, "a thread has one offset");
    const CommonOfDomain<Plan::TILES> common(constant, field, domains);
    constexpr int kVectors = Plan::kStride / 4;
    for (int i = threadIdx.x; i < Plan::kSides * Plan::kTile * kVectors; i += Plan::kThreads) {
      const bool ones = !Plan::kExact && i % kVectors == Plan::one(words) / 4;
      reinterpret_cast<warpwise::Float4*>(tiles)[i] = {ones ? 1.0f : 0.0f, 0.0f, 0.0f, 0.0f};
    }
    if (Plan::kOwn || !Plan::KEEPS) fill_zeros<Plan::kThreads>(sums_of_parts, 32 * Plan::kMoments * Plan::kParts);
    // Fragment `at`, [step][tile][parity][lane]: columns 0 and 1 of features.
    constexpr int kFragments = 64 * Plan::STEPS * Plan::TILES, kInWord = Plan::kInWord;
    const auto load = [&](int at) {
      const int of = at % 32, h = at / 32 % 2, m = at / 64 % Plan::TILES, step = at / (64 * Plan::TILES);
      const int k = Lanes::domain(m, of / 8, h, of / 4 % 2), d = kInWord * (8 * step + of % 4);
      warpwise::Vector<float, 2 * kInWord> values;
#pragma unroll
      for (int i = 0; i < 2 * kInWord; ++i) {
        const int column = d + i / kInWord * 4 * kInWord + i % kInWord;
        values.at[i] = k < domains && column < width ? linear[static_cast<long long>(k) * width + column] : 0.0f;
      }
      return values;
    };
    fill_in_batches<kFragments, Plan::kThreads>(load, [&](int at, const warpwise::Vector<float, 2 * kInWord>& values) {
      warpwise::Vector<float, Plan::kOf> parts;
      if constexpr (Plan::kExact) {
        parts = coefficient_parts(values, sharpness);
      } else {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          parts.at[e] = sharpness * values.at[e];
          if constexpr (Plan::RESTS) parts.at[2 + e] = __uint_as_float(warpwise::rest_of_tf32(parts.at[e]));
        }
      }
      reinterpret_cast<warpwise::Vector<float, Plan::kOf>*>(coefficients)[at] = parts;
    });
    common.store(offsets, fields, sharpness);
  }
};

// The features, and the first neighbours, of a warp's points of the next tile, copied while the present one is updated.
template <class Plan, class Memory>
struct TileCopy {
  const Memory& memory;
  TileEdges<Plan> edges;
  warpwise::WarpCopy<Plan::kPoints> features;
  int own;  // the warp's first point in shared memory

  // words: of a row of x, in bfloat16 two or a multiple of four.
  __device__ TileCopy(const Memory& to, const typename Plan::X* x, int words, const int* rows, const int* at)
      : memory(to),
        edges{rows, at},
        features(reinterpret_cast<const float*>(x), words),
        own(threadIdx.x / 32 * Plan::kPoints) {
    features.stride = Plan::kStride;
  }

  __device__ void load_rows(int first, int end) { edges.load_rows(first, end); }

  // Copies the edges of the warp's points from `first` on. The point itself, or the first point, replaces an edge that
  // does not exist: no point selects these rows.
  __device__ void copy(int side, int x_side, int first, int end) const {
    const int place = side * Plan::kTile + own, lane = threadIdx.x % 32;
    int* const to = memory.edges + place * Plan::kEdges + lane;
    if (__all_sync(kAllLanes, edges.stop - edges.start == Plan::kEdges || lane >= Plan::kPoints)) {
      const int* const from = edges.columns + __shfl_sync(kAllLanes, edges.start, 0) + lane;
#pragma unroll
      for (int i = 0; i < Plan::kPoints * Plan::kEdges; i += 32) {
        warpwise::mma::cp_async<4>(warpwise::shared_address(to + i), from + i, true);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Plan::kPoints * Plan::kEdges; i += 32) {
        const int edge = __shfl_sync(kAllLanes, edges.start, (lane + i) / Plan::kEdges) + lane % Plan::kEdges;
        const bool exists = edge < __shfl_sync(kAllLanes, edges.stop, (lane + i) / Plan::kEdges);
        if (exists) {
          warpwise::mma::cp_async<4>(warpwise::shared_address(to + i), edges.columns + edge, true);
        } else {
          const int point = first + (lane + i) / Plan::kEdges;
          to[i] = point < end ? point : first;
        }
      }
    }
    float* const tile = memory.tiles + (x_side * Plan::kTile + own) * Plan::kStride;
    if constexpr (Plan::kExact) {
      copy_exact(tile, first, end);
    } else {
      features(tile, first, end);
    }
    __pipeline_commit();
  }

  // Rows of bfloat16, of 8 bytes or of vectors of 16 bytes. Rows from `end` on become zero.
  __device__ void copy_exact(float* tile, int first, int end) const {
    const int lane = threadIdx.x % 32, words = features.width;
    const float* const x = features.features + static_cast<long long>(min(first, end - 1)) * words;
#pragma unroll
    for (int i = 0; i < Plan::kPoints * Plan::kFull; i += 32) {
      const int row = (lane + i) / Plan::kFull, vector = (lane + i) % Plan::kFull;
      const bool exists = first + row < end;
      if (Plan::kPoints * Plan::kFull % 32 && row >= Plan::kPoints) continue;
      const float* const from = x + (exists ? row * words + 4 * vector : 0);
      const unsigned to = warpwise::shared_address(tile) + Plan::place(row, vector);
      if (words == 2) {
        warpwise::cp_async8(to, from, exists);
      } else {
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from),
                     "r"(exists ? 16 : 0), "l"(features.policy)
                     : "memory");
      }
    }
  }
};
