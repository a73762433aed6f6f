// Plan, shared memory and scores of k10.
#pragma once

#include "eight_lanes.cuh"
#include "fragment_plan.cuh"
#include "selection_products.cuh"

// As k07 with features in bfloat16 and moments of a warp's own 16 points. Column n of a product of the scores, n < 8 of
// product j, is point 4 (2 j + n % 2) + n / 2, so that lanes have the points and domains whose neighbours they add.
template <int WARPS, int TILES, int STEPS, int FEATURES, bool KEEPS>
struct EightPlan : SelectionPlan<__nv_bfloat16, WARPS, 2, TILES, STEPS, FEATURES, 1, 0, true, KEEPS, false> {
  using Lanes = EightLanes<TILES>;
  static __device__ int point_at(int column) { return column / 8 * 8 + column % 2 * 4 + column % 8 / 2; }
  static __device__ int domain_of(int m, int row, int upper) { return Lanes::domain(m, row, upper); }
};

template <class Plan>
struct EightMemory : SelectionMemory<Plan> {
  using SelectionMemory<Plan>::SelectionMemory;

  // Of scores that contain it already. A compiler may omit the addition of -0.
  __device__ float offset(int, int, int) const { return -0.0f; }

  // coefficients: [step][tile][part][lane][4], offsets and fields: [tile][group][h]. All logits are in units of log 2.
  // `field`: external of all points, or null.
  __device__ void fill(const float* linear, const float* constant, const float* field, int domains, int width,
                       float sharpness) const {
    using Lanes = typename Plan::Lanes;
    fill_zeros<Plan::kThreads>(this->tiles, 2 * Plan::kTile * Plan::kStride);
    fill_zeros<Plan::kThreads>(this->sums_of_parts, 32 * Plan::kMoments * Plan::kParts);
    // Fragment `at`, [step][tile][lane]: columns 0, 1, 8 and 9 of features of two domains.
    const auto load = [&](int at) {
      const int lane = at % 32, m = at / 32 % Plan::TILES, d = 16 * (at / (32 * Plan::TILES)) + 2 * (lane % 4);
      EightCoefficients values;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int k = Lanes::domain(m, lane / 4, i / 2 % 2), column = d + i / 4 * 8 + i % 2;
        values.at[i] = k < domains && column < width ? linear[static_cast<long long>(k) * width + column] : 0.0f;
      }
      return values;
    };
    constexpr int kFragments = 32 * Plan::STEPS * Plan::TILES;
    fill_in_batches<kFragments, Plan::kThreads>(load, [&](int at, const EightCoefficients& values) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        reinterpret_cast<warpwise::Float4*>(this->coefficients)[(at / 32 * 2 + part) * 32 + at % 32] =
            values.part(part, sharpness);
      }
    });
    fill_offsets<Lanes, Plan::TILES, Plan::kThreads>(this->offsets, this->fields, constant, field, domains, sharpness);
  }
};

// d = a b + c. The columns of c are the same; c0 and c1 are of rows `group` and `group` + 8.
__device__ inline void product_from_rows(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, float c0,
                                         float c1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %11, %11};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c0), "f"(c1));
}

// scores[j][m][2 h + x]: offset + coefficients . x of point 4 (2 j + x) + index and domain (m, group, h). x: the warp's
// rows; coefficients: at this lane; offsets: at 2 group.
template <class Plan>
__device__ inline void find_scores(float (&scores)[2][Plan::TILES][4], const float* x, const float* coefficients,
                                   const float* offsets) {
  const int lane = threadIdx.x % 32, point = Plan::point_at(lane / 16 * 8 + lane % 8);
#pragma unroll
  for (int s = 0; s < Plan::STEPS; ++s) {
    unsigned b[4];  // [j][half of the step]; of an odd number of vectors the last one serves twice, with coefficients 0
    const bool whole = 2 * s + 1 < Plan::kFull;
    const unsigned place = Plan::moved(Plan::place(point, whole ? lane / 8 % 2 : 0), 2 * s);
    warpwise::ldmatrix_x4(b, warpwise::shared_address(x) + place);
#pragma unroll
    for (int m = 0; m < Plan::TILES; ++m) {
      unsigned a[2][4];
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const auto words =
            *reinterpret_cast<const warpwise::Float4*>(coefficients + ((s * Plan::TILES + m) * 2 + part) * 128);
#pragma unroll
        for (int i = 0; i < 4; ++i) a[part][i] = __float_as_uint(words.at[i]);
      }
#pragma unroll
      for (int part = 1; part >= 0; --part) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (s == 0 && part == 1) {
            const auto two = *reinterpret_cast<const warpwise::Vector<float, 2>*>(offsets + 16 * m);
            product_from_rows(scores[j][m], a[part], b[2 * j], b[2 * j + 1], two.at[0], two.at[1]);
          } else {
            warpwise::mma::mma_sync(scores[j][m], a[part], b[2 * j], b[2 * j + 1], __nv_bfloat16());
          }
        }
      }
    }
  }
}
