// Sizes and shared memory of k07: which warp has which points and moments, and which lane has which domains.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/sm80/copy_rows.cuh>
#include <warpwise/sm80/tf32.cuh>

#include "adjacent_rows.cuh"
#include "colours.cuh"
#include "fragments.cuh"
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

  // All threads.
  static __device__ void sync() { __syncthreads(); }
};

// Rows of q in bfloat16: in a load lane (g, t) has a vector of 2 W adjacent domains, W = 4 in each four tiles of 16
// domains, else 2 or 1. After the product of a selection matrix and these vectors, whose columns are pairs of domains,
// lane (g, t) holds point g of a group and the vectors of lanes with g = 2 t and 2 t + 1, in pair i of tile i. These are
// vectors t and t + 4 if W = 4, so that four lanes store 64 adjacent bytes at once, else 2 t and 2 t + 1.
// LAST: the domains of the last of the vectors that a lane stores, of eight, or of four if W is 1; 0 if all exist, or if
// zeros may be written in their place. Those that do not exist are neither used nor written.
//
// L1 takes a load of 16 bytes per lane in steps of eight lanes, (g, t) with two g: vectors v and v + 4 of four rows.
// These have different banks if the rows are an odd multiple of 16 bytes apart. Else a TURN exchanges vectors: lane
// (g, t) loads v ^ t in place of v if the distance is a multiple of 64 bytes (1), v ^ t / 2 if of 32 bytes (2). A load
// of 8 bytes per lane has steps of 16 lanes, two adjacent pairs of vectors of four rows, and v ^ 4 (t / 2) with TURN 1.
// The sum of point p is then in the lane with index t ^ turn(p), and `restore` moves it.
template <int TILES, int LAST = 0, int TURN = 0>
struct RowLanes {
  static constexpr int kWide = TILES / 4, kRest = TILES % 4;
  static constexpr int kLoads = kWide + (kRest + 1) / 2;
  static constexpr int kEnd = kRest == 0 ? 4 : kRest == 2 ? 2 : 1;  // W of the last load
  static constexpr int kLast = LAST % (2 * kEnd);  // the domains of its last vector, of 2 W; 0 if all exist
  static __device__ constexpr int width(int m) { return m < 4 * kWide ? 4 : kRest >= 2 && m < 4 * kWide + 2 ? 2 : 1; }
  static __device__ constexpr int base(int m) {  // the first tile of the load of tile m
    return m < 4 * kWide ? m / 4 * 4 : width(m) == 2 ? 4 * kWide : m;
  }
  static __device__ constexpr int first_of(int load) {  // its first tile
    return load <= kWide ? 4 * load : TILES - 1;
  }
  // Vector x of index t.
  static __device__ constexpr int vector(int width, int t, int x) { return width == 4 ? t + 4 * x : 2 * t + x; }
  // The domain of parity h of vector x of index t, in tile m.
  static __device__ constexpr int domain(int m, int t, int h, int x) {
    return 16 * base(m) + 2 * (width(m) * vector(width(m), t, x) + m - base(m)) + h;
  }
  // Loads that end before the last tile are complete: one address, with an offset, serves all of four tiles.
  static __device__ constexpr bool complete(int load) { return first_of(load) + width(first_of(load)) < TILES; }
  static __device__ constexpr bool shares(int load) { return load > 0 && load < kWide && complete(load); }

  const char* lanes[kLoads];  // the lane's first domain in row 0; of a domain that exists
  unsigned row_bytes;
  int last;             // the index of the last vector of the last load
  unsigned half, whole;  // masks of its word that has one domain, if kLast is odd, and of those that have none

  // What index `t` is XORed with for the rows of point `point`.
  static __device__ constexpr bool turns(int width) { return width == 4 ? TURN > 0 : width == 2 && TURN == 1; }
  static __device__ int turn(int width, int point) {
    return !turns(width) ? 0 : width == 2 ? point % 4 / 2 * 2 : TURN == 1 ? point % 4 : point % 4 / 2;
  }

  __device__ RowLanes(const __nv_bfloat16* q, int row, int group, int index, int domains) : row_bytes(2 * row) {
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const int m = first_of(l), w = width(m), t = group / 2 ^ turn(w, index),
                own = 16 * m + 2 * w * vector(w, t, group % 2), k = own < domains ? own : 16 * m;
      lanes[l] = held(reinterpret_cast<const char*>(q + k));
      whole = k + 2 * w > domains ? 0 : ~0u;
      half = whole | 0xffffu;
    }
    last = (domains - 1) % (16 * kEnd) / (2 * kEnd);
  }

  // Row `at`: to[m] is a pair of domains of tile m.
  __device__ void load(unsigned (&to)[TILES], int at) const {
    const char* row = nullptr;
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const int m = first_of(l);
      if (!shares(l)) row = lanes[l] + static_cast<unsigned long long>(static_cast<unsigned>(at)) * row_bytes;
      const char* const from = shares(l) ? row + 128 * l : row;
      if (width(m) == 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(from);
        to[m] = four.x;
        to[m + 1 < TILES ? m + 1 : m] = four.y;
        to[m + 2 < TILES ? m + 2 : m] = four.z;
        to[m + 3 < TILES ? m + 3 : m] = four.w;
      } else if (width(m) == 2) {
        const uint2 two = *reinterpret_cast<const uint2*>(from);
        to[m] = two.x;
        to[m + 1 < TILES ? m + 1 : m] = two.y;
      } else {
        to[m] = *reinterpret_cast<const unsigned*>(from);
      }
    }
  }

  // Moves the sums of point `group` to the lanes that have its other values. Clears those of pairs that do not exist in
  // the last vector, unless their words were masked: the numbers in their place may be NaN.
  __device__ void restore(float (&around)[TILES][4], int group, int index) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
      for (int i = 0; i < 4 && turns(width(m)); ++i) {
        around[m][i] = __shfl_sync(kAllLanes, around[m][i], lane ^ turn(width(m), group));
      }
    }
#pragma unroll
    for (int m = TILES - kEnd + (kLast + 1) / 2; m < TILES && kLast > 0 && !turns(kEnd); ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) around[m][i] = vector(kEnd, index, i % 2) == last ? 0.0f : around[m][i];
    }
  }

  // Masks a loaded word when it is used. A mask right after the load would wait for the load. Zero times NaN is NaN: a
  // domain that does not exist is masked if a product has it in a column with domains that exist.
  __device__ unsigned used(int m, unsigned word) const {
    const int i = m - (TILES - kEnd) - kLast / 2;  // 0: the first word that has not two domains
    if (kLast % 2 && i == 0) return word & half;
    return turns(kEnd) && kLast > 0 && i >= 0 ? word & whole : word;
  }

  // Four or two adjacent pairs of domains from k on, of which those below `domains` are stored.
  template <int N>
  static __device__ void store(__nv_bfloat16* at, const warpwise::Vector<unsigned, N>& words, int k, int domains) {
    if (LAST == 0 || k + 2 * N <= domains) {
      if constexpr (N == 4) {
        __stcg(reinterpret_cast<uint4*>(at), make_uint4(words.at[0], words.at[1], words.at[2], words.at[3]));
      } else {
        __stcg(reinterpret_cast<uint2*>(at), make_uint2(words.at[0], words.at[1]));
      }
    } else {
      if (LAST & 4) __stcg(reinterpret_cast<uint2*>(at), make_uint2(words.at[0], words.at[1]));
      if (LAST & 2) __stcg(reinterpret_cast<unsigned*>(at + (LAST & 4)), words.at[(LAST & 4) / 2]);
      if (LAST & 1) {
        __stcg(reinterpret_cast<unsigned short*>(at + (LAST & 6)), static_cast<unsigned short>(words.at[LAST / 2]));
      }
    }
  }

  // pairs[m][x] of a point to its row.
  static __device__ void store(__nv_bfloat16* to, const unsigned (&pairs)[TILES][2], int t, int domains) {
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const int m = first_of(l);
      const int a = m + 1 < TILES ? m + 1 : m, b = m + 2 < TILES ? m + 2 : m, c = m + 3 < TILES ? m + 3 : m;
      if (width(m) == 4) {
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          const int k = domain(m, t, 0, x);
          if (!complete(l) && k >= domains) continue;
          store<4>(to + k, {pairs[m][x], pairs[a][x], pairs[b][x], pairs[c][x]}, k, complete(l) ? k + 8 : domains);
        }
      } else if (const int k = domain(m, t, 0, 0); complete(l) || k < domains) {
        const int end = complete(l) ? k + 8 : domains;
        if (width(m) == 2) store<4>(to + k, {pairs[m][0], pairs[a][0], pairs[m][1], pairs[a][1]}, k, end);
        if (width(m) == 1) store<2>(to + k, {pairs[m][0], pairs[m][1]}, k, end);
      }
    }
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
#pragma unroll 4
    for (int i = threadIdx.x; i < 128 * Plan::STEPS * Plan::TILES; i += Plan::kThreads) {
      const int e = i % 2, of = i / 2 % 32, h = i / 64 % 2, m = i / 128 % Plan::TILES, step = i / (128 * Plan::TILES);
      const int k = Lanes::domain(m, of / 8, h, of / 4 % 2), d = Plan::kInWord * (8 * step + of % 4 + 4 * e);
      const auto at = [&](int d) {
        return k < domains && d < width ? sharpness * linear[static_cast<long long>(k) * width + d] : 0.0f;
      };
      const float value = at(d), second = Plan::kExact ? at(d + 1) : 0.0f;
      float* const to = coefficients + i / 2 * Plan::kOf + e;
      if constexpr (Plan::kExact) {
        to[0] = coefficient_part(0, value, second);
        to[2] = coefficient_part(1, value, second);
      } else {
        to[0] = value;
        if (Plan::RESTS) to[2] = __uint_as_float(warpwise::rest_of_tf32(value));
      }
    }
    for (int i = threadIdx.x; i < 16 * Plan::TILES; i += Plan::kThreads) {
      const int k = Lanes::domain(i / 16, i / 4 % 4, i / 2 % 2, i % 2);
      fields[i] = k >= domains ? warpwise::minus_infinity() : field ? kLog2E * field[k] : 0.0f;
      offsets[(i / 16 * 8 + i / 2 % 2 * 4 + i / 4 % 4) * 2 + i % 2] =
          k < domains ? sharpness * constant[k] + fields[i] : warpwise::minus_infinity();
    }
    const int one = Plan::kExact ? -1 : Plan::one(words);
    for (int i = threadIdx.x; i < Plan::kSides * Plan::kTile * Plan::kStride; i += Plan::kThreads) {
      tiles[i] = i % Plan::kStride == one ? 1.0f : 0.0f;
    }
    for (int i = threadIdx.x; (Plan::kOwn || !Plan::KEEPS) && i < 32 * Plan::kMoments * Plan::kParts;
         i += Plan::kThreads) {
      sums_of_parts[i] = 0.0f;
    }
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
