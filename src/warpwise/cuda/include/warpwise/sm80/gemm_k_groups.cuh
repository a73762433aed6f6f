// The main loop of a float32 block tile on the CUDA cores for operands that are both K-major: warps divide K too.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/sm80/gemm_pipeline.cuh>
#include <warpwise/sm80/mma.cuh>

namespace warpwise {
namespace gemm {

// BM x BN: block tile; WM x WN: warp tile, over 8 x 4 lanes; GROUPS: warps of a warp tile, each of which multiplies
// every GROUPS-th of the K-vectors of four floats; BK: k-tile of a stage. Lines of A and B keep K contiguous in shared
// memory: they are copied by 16 bytes, where a tile of gemm_simt.cuh transposes them by copies of 4. Lines are 4 mod 32
// floats apart, so that loads of 8 adjacent lines have no bank conflict.
template <int BM_, int BN_, int BK, int WM, int WN, int GROUPS, int STAGES>
struct KGroupsMainLoop {
  using Element = float;
  static constexpr int BM = BM_, BN = BN_, kTileK = 4;  // kTileK: K is divided between blocks by vectors
  static constexpr int kThreads = (BM / WM) * (BN / WN) * GROUPS * 32;
  static constexpr int kRows = WM / 8, kColumns = WN / 4, kPitch = BK + 4, kStage = (BM + BN) * kPitch;
  static constexpr int kPartPitch = BN + 4;  // of the sums of a group
  static_assert(BK % 128 == 0 && (BM + BN) % (kThreads / 32) == 0, "a warp copies 128 floats of a line at once");

  float sums[kRows][kColumns];
  int group, row, column;  // of this lane's first element in the block tile; the others are 8 rows, 4 columns further

  __device__ KGroupsMainLoop() : sums{} {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, tile = warp / GROUPS;
    group = warp % GROUPS;
    row = tile / (BN / WN) * WM + lane % 8;
    column = tile % (BN / WN) * WN + lane / 8;
  }

  // Adds the products of rows first_row.. of a (m, k) and columns first_column.. of b (k, n) over [k_begin, k_end),
  // multiples of 4. The lines of a and b are `a_stride` and `b_stride` elements apart, and aligned to 16 bytes.
  __device__ void run(unsigned char* shared, const float* a, int a_stride, const float* b, int b_stride, int first_row,
                      int first_column, int m, int n, int k_begin, int k_end) {
    float* const stages = reinterpret_cast<float*>(shared);
    const auto copy = [&](int stage, int k) {
      float* const to = stages + stage * kStage;
      copy_lines<BM>(to, a, a_stride, first_row, m, k, k_end);
      copy_lines<BN>(to + BM * kPitch, b, b_stride, first_column, n, k, k_end);
    };
    copy_pipeline<STAGES, BK>(k_begin, k_end, copy, [&](int stage, int k) {
      const float* const a_lines = stages + stage * kStage + row * kPitch;
      const float* const b_lines = stages + stage * kStage + (BM + column) * kPitch;
      const int end = min(BK, k_end - k);
#pragma unroll 1
      for (int at = 4 * group; at < end; at += 4 * GROUPS) multiply(a_lines + at, b_lines + at);
    });
  }

  // Adds the sums of all groups, which are first stored behind these rows, to BM rows of PITCH floats of shared memory.
  template <int PITCH>
  __device__ void stage_sums(float* to) const {
    float* const parts = to + BM * PITCH;
    float* const own = parts + (group * BM + row) * kPartPitch + column;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) own[8 * r * kPartPitch + 4 * c] = sums[r][c];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN / 4; i += kThreads) {
      const int r = i / (BN / 4), c = i % (BN / 4) * 4;
      float total[4] = {};
#pragma unroll
      for (int other = 0; other < GROUPS; ++other) {
        const Float4 part = *reinterpret_cast<const Float4*>(parts + (other * BM + r) * kPartPitch + c);
#pragma unroll
        for (int e = 0; e < 4; ++e) total[e] += part.at[e];
      }
      store4<true>(to + r * PITCH + c, total, 4);
    }
  }

 private:
  // Copies lines `first` to `first` + LINES of `size`, from `k_begin` of K on; lines past the end are zeros.
  template <int LINES>
  __device__ static void copy_lines(float* to, const float* matrix, int stride, int first, int size, int k_begin,
                                    int k_end) {
    const int k = threadIdx.x % 32 * 4;
    for (int part = 0; part < BK; part += 128) {
      if (k_begin + part + k >= k_end) continue;
#pragma unroll 8
      for (int line = static_cast<int>(threadIdx.x) / 32; line < LINES; line += kThreads / 32) {
        const bool inside = first + line < size;
        const long long from = static_cast<long long>(inside ? first + line : 0) * stride + k_begin + part + k;
        mma::cp_async<16>(shared_address(to + line * kPitch + part + k), matrix + from, inside);
      }
    }
  }

  __device__ void multiply(const float* a, const float* b) {
    Float4 x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = *reinterpret_cast<const Float4*>(a + 8 * r * kPitch);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const Float4 y = *reinterpret_cast<const Float4*>(b + 4 * c * kPitch);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) sums[r][c] += x[r].at[e] * y.at[e];
      }
    }
  }
};

}  // namespace gemm
}  // namespace warpwise
