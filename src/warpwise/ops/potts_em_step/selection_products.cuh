// The products of k07 by mma.sync. Scores: of float features three of the four products of TF32 pairs; of bfloat16
// features one with each of the two parts of a coefficient. Moments: q with three bfloat16 parts of a float feature, or
// with a bfloat16 feature.
#pragma once

#include "selection_plan.cuh"

// d = a b + c, of features X. All rows of c are the same; c0 and c1 are this lane's columns.
#define WW_PRODUCT_FROM(X, INSTRUCTION)                                                                          \
  __device__ inline void product_from(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, float c0, \
                                      float c1, X) {                                                             \
    asm volatile("mma.sync.aligned." INSTRUCTION                                                                 \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %10, %11};"                          \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c0), "f"(c1));              \
  }
WW_PRODUCT_FROM(float, "m16n8k8.row.col.f32.tf32.tf32.f32")
WW_PRODUCT_FROM(__nv_bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32")
#undef WW_PRODUCT_FROM

// large: the operands A of step s of the scores. small: the rests of float features. x: float: the row of point
// `group`, at word `index`; bfloat16: the first row.
template <class Plan>
__device__ inline void load_step(unsigned (&large)[Plan::kHalves][4], unsigned (&small)[Plan::kHalves][4],
                                 const float* x, int s) {
  if constexpr (Plan::kExact) {
    const int lane = threadIdx.x % 32, rows = 8 * Plan::kPair;
    const bool whole = 2 * s + 1 < Plan::kFull;  // two vectors of a row, not one
    const unsigned place = Plan::moved(Plan::place(lane % rows, whole ? lane / 16 : 0), 2 * s);
#pragma unroll
    for (int p = 0; p < Plan::kHalves; ++p) {
      warpwise::ldmatrix_x4(large[p], warpwise::shared_address(x + 16 * p * Plan::kStride) + place);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i % 2 >= Plan::kPair || (i / 2 > 0 && !whole)) large[p][i] = 0;
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4 * Plan::kHalves; ++i) {  // one by one into the operand's registers, without moves
      if (i % 2 >= Plan::kPair) continue;
      const float value = x[(i / 4 * 16 + i % 2 * 8) * Plan::kStride + 8 * s + i / 2 % 2 * 4];
      large[i / 4][i % 4] = __float_as_uint(value);
      small[i / 4][i % 4] = warpwise::rest_of_tf32(value);
    }
  }
}

// Computes scores[p][m][h][2 j + x] = offset + coefficients . x for point `group` of group j of half p, and domain
// `Lanes::domain(m, t, h, x)`. x: as for load_step. coefficients: at this lane; offsets: at 2 index.
template <class Plan>
__device__ inline void find_scores(float (&scores)[Plan::kHalves][Plan::TILES][2][4], const float* x,
                                   const float* coefficients, const float* offsets) {
  constexpr int kFour = 4;                      // accumulators of adjacent instructions
  constexpr int kFirst = Plan::kExact ? 1 : 0;  // product 0 is with rests of features
  using X = typename Plan::X;
#pragma unroll
  for (int s = 0; s < Plan::STEPS; ++s) {
    unsigned large[Plan::kHalves][4] = {}, small[Plan::kHalves][4] = {};
    load_step<Plan>(large, small, x, s);
#pragma unroll
    for (int n = 0; n < 2 * Plan::TILES; n += kFour) {
      unsigned b[kFour][2], rest[kFour][2];
      warpwise::Vector<float, 2> c[kFour];
#pragma unroll
      for (int i = 0; i < kFour && n + i < 2 * Plan::TILES; ++i) {
        const float* const from = coefficients + (s * 2 * Plan::TILES + n + i) * 32 * Plan::kOf;
        const auto parts = *reinterpret_cast<const warpwise::Vector<float, Plan::kOf>*>(from);
        if (s == 0) c[i] = *reinterpret_cast<const warpwise::Vector<float, 2>*>(offsets + 8 * (n + i));
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          b[i][e] = __float_as_uint(parts.at[e]);
          rest[i][e] = Plan::RESTS ? __float_as_uint(parts.at[Plan::kOf - 2 + e]) : warpwise::rest_of_tf32(parts.at[e]);
        }
      }
#pragma unroll
      for (int product = kFirst; product < 3; ++product) {
#pragma unroll
        for (int p = 0; p < Plan::kHalves; ++p) {
#pragma unroll
          for (int i = 0; i < kFour && n + i < 2 * Plan::TILES; ++i) {
            const unsigned* const of = product == 1 ? rest[i] : b[i];
            auto& to = scores[p][(n + i) / 2][i % 2];
            const auto& a = product == 0 ? small[p] : large[p];
            if (s == 0 && product == kFirst) {
              product_from(to, a, of[0], of[1], c[i].at[0], c[i].at[1], X());
            } else {
              warpwise::mma::mma_sync(to, a, of[0], of[1], X());
            }
          }
        }
      }
    }
  }
}

// An 8 x 8 matrix of 2-byte elements, row l / 4 and columns 2 (l % 4), + 1 in lane l, transposed.
__device__ inline unsigned transposed(unsigned word) {
  unsigned result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(word));
  return result;
}

// Two 8 x 8 matrices of 2-byte elements, transposed; lanes 0 to 15 have the addresses of their rows.
__device__ inline void load_transposed(unsigned (&to)[2], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(row)
               : "memory");
}

// A float as three numbers of bfloat16: parts[p] has those of `first` in the lower half and of `second` in the upper.
__device__ inline void split_bf16(unsigned (&parts)[3], float first, float second) {
#pragma unroll
  for (int p = 0; p < 3; ++p) {
    parts[p] = __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x7632);
    first -= __uint_as_float(__float_as_uint(first) & 0xffff0000u);
    second -= __uint_as_float(__float_as_uint(second) & 0xffff0000u);
  }
}

// The moments q^T x of a warp, x with a column of ones. q is exact in bfloat16, a float x the sum of three parts.
// Tensor cores round sums towards zero, so that only those of a tile are added there. The moments stay in shared
// memory, or with KEEPS in registers: a warp's own of kKept tiles, which tensor cores add, or those of a block.
template <class Plan>
struct SelectionMoments {
  static constexpr int MI = Plan::MI, NI = Plan::NI, TILES = Plan::TILES;
  static constexpr int kMost = MI > 4 ? 2 : 3, kAt = NI < kMost ? NI : kMost;  // tiles of features at a time
  static constexpr int kKept = 8;                                              // tiles of points
  using Fragments = unsigned[Plan::kHalves][TILES][4];
  float sums[Plan::KEEPS ? MI : 1][Plan::KEEPS ? NI : 1][4] = {};
  int kept = 0;
  int first_m, first_n;
  float* to;  // [tile][lane][4]

  __device__ SelectionMoments(const SelectionMemory<Plan>& memory, int warp, int lane)
      : first_m(Plan::kOwn ? 0 : warp % Plan::kWarpsM * MI),
        first_n(Plan::kOwn ? 0 : warp / Plan::kWarpsM % Plan::kWarpsN * NI),
        to(memory.sums_of_parts + warp / Plan::kSharing * Plan::kMoments * 32 + 4 * lane) {}

  __device__ warpwise::Float4& at(int m, int n) const {
    return *reinterpret_cast<warpwise::Float4*>(to + ((first_m + m) * Plan::FEATURES + first_n + n) * 128);
  }

  // Adds local sums of tiles from FROM on to those in shared memory.
  template <int FROM, int COUNT>
  __device__ void add_local(const float (&local)[MI][COUNT][4]) const {
#pragma unroll
    for (int m = 0; m < MI; ++m) {
#pragma unroll
      for (int n = 0; n < COUNT; ++n) {
        if (!Plan::kOwn && (first_m + m >= TILES || first_n + FROM + n >= Plan::FEATURES)) continue;
        warpwise::Float4 total = {};
        if (Plan::kOwn || !Plan::KEEPS) total = at(m, FROM + n);
#pragma unroll
        for (int i = 0; i < 4; ++i) total.at[i] += local[m][n][i];
        at(m, FROM + n) = total;
      }
    }
  }

  // Adds the sums that are kept in registers to those in shared memory.
  __device__ void flush() {
    if constexpr (Plan::KEEPS) add_local<0, NI>(sums);
  }

  // Where the points of a warp begin for a lane: at feature `group` of point 2 index, or in bfloat16 at the first
  // point.
  static __device__ int at_lane(int lane) { return Plan::kExact ? 0 : lane % 4 * 2 * Plan::kStride + lane / 4; }

  // Tiles FROM to FROM + COUNT of features of a warp's points. x: its rows, at this lane; q_of(m): the fragment of tile
  // first_m + m.
  template <int FROM, int COUNT, class Fragment>
  __device__ void add_points(float (&total)[MI][COUNT][4], const float* x, int group, const Fragment& q_of) const {
    unsigned parts[COUNT][2][3];
#pragma unroll
    for (int n = 0; n < COUNT; ++n) {
      const int tile = Plan::kOwn ? FROM + n : min(first_n + FROM + n, Plan::FEATURES - 1);  // past the last: not used
      const bool ones = Plan::FEATURES > Plan::kFull && tile == Plan::kFull;
      unsigned whole[2] = {};
      if (Plan::kExact && !(Plan::kOwn && ones)) {
        const unsigned place = Plan::place(Plan::point_at(threadIdx.x % (8 * Plan::kPair)), 0);
        load_transposed(whole, warpwise::shared_address(x) + Plan::moved(place, ones ? 0 : tile));
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        parts[n][j][0] = ones && group == 0 ? 0x3f803f80u : 0;
        parts[n][j][1] = parts[n][j][2] = 0;
        if (ones || j >= Plan::kPair) continue;
        if constexpr (Plan::kExact) {
          parts[n][j][0] = whole[j];
        } else {
          const float* const from = x + 8 * j * Plan::kStride + 8 * tile;
          split_bf16(parts[n][j], from[0], from[Plan::kStride]);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < MI; ++m) {
      const uint4 four = q_of(m);
      const unsigned a[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int p = Plan::kExact ? 0 : 2; p >= 0; --p) {
#pragma unroll
        for (int n = 0; n < COUNT; ++n) {
          const bool ones = Plan::kOwn && FROM + n == Plan::kFull;
          if (ones && p > 0) continue;
          warpwise::mma::mma_sync(total[m][n], a, parts[n][0][p], parts[n][1][p], __nv_bfloat16());
        }
      }
    }
  }

  // Those of product p of a warp's own points.
  template <int FROM, int COUNT>
  __device__ void add_half(float (&total)[MI][COUNT][4], const float* x, int group, const Fragments& fragments,
                           int p) const {
    add_points<FROM, COUNT>(total, x + 16 * p * Plan::kStride, group, [&](int m) {
      return make_uint4(fragments[p][m][0], fragments[p][m][1], fragments[p][m][2], fragments[p][m][3]);
    });
  }

  // The warp's own points, kKept tiles of which are added by tensor cores.
  __device__ void keep_own(const float* x, int group, const Fragments& fragments) {
#pragma unroll
    for (int p = 0; p < Plan::kHalves; ++p) add_half<0, NI>(sums, x, group, fragments, p);
    if (++kept < kKept) return;
    kept = 0;
    flush();
#pragma unroll
    for (int i = 0; i < 4 * MI * NI; ++i) sums[i / (4 * NI)][i / 4 % NI][i % 4] = 0.0f;
  }

  // The warp's own points.
  template <int FROM = 0>
  __device__ void add_own(const float* x, int group, const Fragments& fragments) {
    constexpr int kCount = NI - FROM < kAt ? NI - FROM : kAt;
    float local[MI][kCount][4] = {};
#pragma unroll
    for (int p = 0; p < Plan::kHalves; ++p) add_half<FROM, kCount>(local, x, group, fragments, p);
    add_local<FROM, kCount>(local);
    if constexpr (FROM + kCount < NI) add_own<FROM + kCount>(x, group, fragments);
  }

  // The points of the warps that share moments. x: of the block, at this lane; q_tiles: [tile][warp][lane][4], at this
  // lane.
  template <int FROM = 0>
  __device__ void add_shared(const float* x, int group, const unsigned* q_tiles, int warp) {
    constexpr int kCount = NI - FROM < kAt ? NI - FROM : kAt;
    float local[MI][kCount][4] = {};
#pragma unroll 1
    for (int part = 0; part < Plan::kSharing; ++part) {
      const int of = warp / Plan::kSharing * Plan::kSharing + part;
      add_points<FROM, kCount>(local, x + of * Plan::kPoints * Plan::kStride, group, [&](int m) {
        const int tile = min(first_m + m, TILES - 1);
        return *reinterpret_cast<const uint4*>(q_tiles + (tile * Plan::kWarps + of) * 128);
      });
    }
    if constexpr (Plan::KEEPS) {
#pragma unroll
      for (int i = 0; i < 4 * MI * kCount; ++i) {
        sums[i / (4 * kCount)][FROM + i / 4 % kCount][i % 4] += local[i / (4 * kCount)][i / 4 % kCount][i % 4];
      }
    } else {
      add_local<FROM, kCount>(local);
    }
    if constexpr (FROM + kCount < NI) add_shared<FROM + kCount>(x, group, q_tiles, warp);
  }
};
