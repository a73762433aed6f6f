// The products and sums of k08, of 32 points of a warp.
#pragma once

#include "lane_plan.cuh"
#include "selection_products.cuh"
#include "slot_totals.cuh"
#include "warp_rows.cuh"

// scores: (32, 8) of a warp's points, as score_at has them. x: the features of its points.
template <class Plan, class Memory>
__device__ inline void find_lane_scores(float* scores, const float* x, const Memory& memory, int index) {
  const int lane = threadIdx.x % 32, group = lane / 4;
  const auto c = *reinterpret_cast<const warpwise::Vector<float, 2>*>(memory.offsets + 2 * index);
  float products[2][4];
#pragma unroll
  for (int s = 0; s < Plan::STEPS; ++s) {
    const auto parts = *reinterpret_cast<const warpwise::Float4*>(memory.coefficients + (32 * s + lane) * 4);
    unsigned a[2][4], none[2][4], b[4];
    load_step<Plan>(a, none, x, s);
#pragma unroll
    for (int i = 0; i < 4; ++i) b[i] = __float_as_uint(parts.at[i]);
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      if (s == 0) {
        product_from(products[p], a[p], b[2], b[3], c.at[0], c.at[1], __nv_bfloat16());
      } else {
        warpwise::mma::mma_sync(products[p], a[p], b[2], b[3], __nv_bfloat16());
      }
      warpwise::mma::mma_sync(products[p], a[p], b[0], b[1], __nv_bfloat16());
    }
  }
  float* const to = scores + Plan::score_at(group, 4 * (index / 2)) + 2 * (index % 2);
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // point 8 i + group
    *reinterpret_cast<float2*>(to + 64 * i) = make_float2(products[i / 2][i % 2 * 2], products[i / 2][i % 2 * 2 + 1]);
  }
  __syncwarp();
}

// A lane's posterior in bfloat16 to row `lane` of (32, 8), with zeros past the last domain.
template <int OWN>
__device__ inline void store_rounded(float* rows, const float (&posterior)[OWN], int lane) {
  unsigned words[4] = {};
#pragma unroll
  for (int i = 0; i < OWN / 2; ++i) words[i] = warpwise::pack(posterior[2 * i], posterior[2 * i + 1], __nv_bfloat16{});
  *reinterpret_cast<uint4*>(rows + 4 * lane) = make_uint4(words[0], words[1], words[2], words[3]);
}

// Adds a lane's point to the derivatives for beta: sum_k (q - p) n and the variance of n under p, for p proportional to
// 2^(strength n + field).
template <int OWN>
__device__ inline void add_slopes(float& gradient, float& curvature, const float (&posterior)[OWN],
                                  const float (&around)[OWN], const float (&fields)[OWN], float strength, bool inside) {
  float sum, mean, square, shift = 0.0f;
  const auto add_prior = [&] {
    sum = mean = square = 0.0f;
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      const float p = exp2_ftz(__fmaf_rn(strength, around[i], fields[i]) - shift), part = p * around[i];
      sum += p;
      mean += part;
      square = __fmaf_rn(part, around[i], square);
    }
  };
  add_prior();
  if (__any_sync(kAllLanes, !(sum > 1.0f / kSafe && sum < kSafe))) {
    shift = warpwise::minus_infinity();
#pragma unroll
    for (int i = 0; i < OWN; ++i) shift = fmaxf(shift, __fmaf_rn(strength, around[i], fields[i]));
    add_prior();
  }
  const float weight = inside ? reciprocal(sum) : 0.0f;
  float observed = 0.0f;
#pragma unroll
  for (int i = 0; i < OWN; ++i) observed = __fmaf_rn(posterior[i], around[i], observed);
  mean *= weight;
  gradient += observed - mean;
  curvature += square * weight - mean * mean;
}

// The moments x^T q of a warp, (features, domains), and the counts, both of the rounded q. Tensor cores round sums
// towards zero, so that only those of kKept tiles are added there.
template <class Plan>
struct LaneMoments {
  static constexpr int kKept = 8, kSums = Plan::STEPS + 1;  // the last: counts in row 0
  float sums[kSums][4] = {}, local[kSums][4] = {};
  int kept = 0;

  // x: the features of the warp's points; rows: their q in bfloat16.
  __device__ void add(const float* x, const float* rows, int lane) {
    unsigned b[4];  // of points 0 to 15, and of 16 to 31
    warpwise::ldmatrix_x4_trans(b, warpwise::shared_address(rows + 4 * lane));
    const unsigned one = lane < 4 ? 0x3f803f80u : 0;
    const unsigned ones[4] = {one, 0, one, 0};
#pragma unroll
    for (int p = 0; p < 2; ++p) {
#pragma unroll
      for (int s = 0; s < Plan::STEPS; ++s) {
        const bool whole = 2 * s + 1 < Plan::kFull;
        const unsigned place = Plan::moved(Plan::place(lane % 8 + lane / 16 * 8, whole ? lane / 8 % 2 : 0), 2 * s);
        unsigned a[4];
        warpwise::ldmatrix_x4_trans(a, warpwise::shared_address(x + 16 * p * Plan::kStride) + place);
        if (!whole) a[1] = a[3] = 0;
        warpwise::mma::mma_sync(local[s], a, b[2 * p], b[2 * p + 1], __nv_bfloat16());
      }
      warpwise::mma::mma_sync(local[Plan::STEPS], ones, b[2 * p], b[2 * p + 1], __nv_bfloat16());
    }
    if (++kept == kKept) flush();
  }

  __device__ void flush() {
    kept = 0;
#pragma unroll
    for (int i = 0; i < 4 * kSums; ++i) {
      sums[i / 4][i % 4] += local[i / 4][i % 4];
      local[i / 4][i % 4] = 0.0f;
    }
  }
};

// A block's sums: (kSlots, 32). All threads have passed a barrier.
template <class Plan, class Memory>
__device__ inline void store_lane_partials(float* partials, const Memory& memory, LaneMoments<Plan>& moments,
                                           float gradient, float curvature) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  moments.flush();
#pragma unroll
  for (int s = 0; s < Plan::STEPS; ++s) {
    const auto& four = moments.sums[s];
    float* const to = memory.sums_of_parts + ((warp * Plan::STEPS + s) * 32 + lane) * 4;
    *reinterpret_cast<warpwise::Float4*>(to) = {four[0], four[1], four[2], four[3]};
  }
  float* const own = memory.others + warp * Plan::kOthers * 32 + lane;
  own[0] = moments.sums[Plan::STEPS][0];
  own[32] = moments.sums[Plan::STEPS][1];
  own[64] = team_sum<32>(gradient);
  own[96] = team_sum<32>(curvature);
  add_warps<Plan>(partials, memory);
}

// After all blocks: their partials are added. shared: 4 kThreads floats.
template <class Plan, int BLOCKS>
__device__ inline void add_lane_partials(float* shared, const float* partials, float* sums, float* counts,
                                         float* derivatives, int restarts, int domains, int width) {
  const int restart = blockIdx.y, lane = threadIdx.x % 32;
  add_blocks<Plan, BLOCKS>(shared, partials, restarts, [&](int slot, float total) {
    const int other = slot - Plan::kMoments;
    if (other < 0) {  // [step][lane][4]: row `of / 4` + 8 (at % 4 / 2), column 2 (of % 4) + at % 2
      const int at = 32 * slot + lane, of = at / 4 % 32;
      const int d = 16 * (at / 128) + of / 4 + at % 4 / 2 * 8, k = 2 * (of % 4) + at % 2;
      if (k < domains && d < width) sums[(static_cast<long long>(restart) * domains + k) * width + d] = total;
    } else if (other < 2) {
      const int k = 2 * lane + other;
      if (lane < 4 && k < domains) counts[restart * domains + k] = total;
    } else if (derivatives && lane == 0) {
      derivatives[(other - 2) * restarts + restart] = total;
    }
  });
}
