// The main loop of a block tile on the tensor cores with float32 accuracy: three TF32 products for each float32
// product.
//
// x = big + small, where big is x rounded to TF32 and small = x - big; x y is computed as big small' + small big' + big
// big', which omits less than 2^-22 |x y|. Tensor cores round sums toward zero, so mma.sync adds at most 48 products to
// a sum, which is then added to float32 registers with rounding to nearest. The parts of an infinity, of NaN and of
// numbers that overflow in TF32 give a sum that is not finite: run() then computes the block's sums in float32.
#pragma once

#include <warpwise/sm80/gemm_mma.cuh>
#include <warpwise/sm80/tf32.cuh>

namespace warpwise {
namespace gemm {

// The parameters are those of MmaMainLoop. MASKED: a is multiplied by `mask` > 0, a matrix of the same strides.
template <int BM_, int BN_, int BK, int WM, int WN, int STAGES, bool A_K_MAJOR, bool B_K_MAJOR, int A_WORD, int B_WORD,
          bool MASKED = false>
struct ThreeTf32MainLoop : MmaMainLoop<float, BM_, BN_, BK, WM, WN, STAGES, A_K_MAJOR, B_K_MAJOR, A_WORD, B_WORD> {
  using Base = MmaMainLoop<float, BM_, BN_, BK, WM, WN, STAGES, A_K_MAJOR, B_K_MAJOR, A_WORD, B_WORD>;
  using Base::kThreads, Base::sums, Base::row, Base::column;
  using typename Base::TileA, typename Base::TileB;
  static constexpr int kStage = Base::kStage + (MASKED ? TileA::kBytes : 0), kBytes = STAGES * kStage;
  static constexpr int kI = WM / 16, kJ = WN / 8, kSteps = 2;  // steps of K in a partial sum
  static_assert(WM % 32 == 0 && WN % 32 == 0, "a lane loads four floats of four groups");

  float row_sums[2 * kI] = {};  // sums of a over k: element i is of group i of eight rows; four lanes share a row

  // Adds a (m, k) b (k, n) for k_begin <= k < k_end, of the tile from (first_row, first_column) on.
  __device__ void run(unsigned char* shared, const float* a, int a_stride, const float* b, int b_stride, int first_row,
                      int first_column, int m, int n, int k_begin, int k_end, const float* mask = nullptr) {
    const auto copy = [&](int stage, int k) {
      unsigned char* const to = shared + stage * kStage;
      TileA::template copy<A_WORD, kThreads>(to, a, a_stride, first_row, m, k, k_end);
      TileB::template copy<B_WORD, kThreads>(to + TileA::kBytes, b, b_stride, first_column, n, k, k_end);
      if (MASKED) TileA::template copy<A_WORD, kThreads>(to + Base::kStage, mask, a_stride, first_row, m, k, k_end);
    };
    const unsigned a_offset = TileA::lane_offset(row);
    unsigned b_offset[WN / 32];
#pragma unroll
    for (int i = 0; i < WN / 32; ++i) b_offset[i] = TileB::lane_offset(column + 32 * i);
    copy_pipeline<STAGES, BK>(k_begin, k_end, copy, [&](int stage, int) {
#pragma unroll
      for (int step = 0; step < BK / 8; step += kSteps) add_steps(shared + stage * kStage, a_offset, b_offset, step);
    });
    bool finite = true;
#pragma unroll
    for (int i = 0; i < kI * kJ * 4; ++i) finite = finite && fabsf(sums[i / (4 * kJ)][i / 4 % kJ][i % 4]) < 3.4e38f;
    if (__syncthreads_and(finite)) return;
    add_in_float(a, mask, a_stride, b, b_stride, first_row, first_column, m, n, k_begin, k_end);
  }

  // Adds the products of kSteps steps of eight k from step `step` of a k-tile on.
  __device__ void add_steps(const unsigned char* from, unsigned a_offset, const unsigned (&b_offset)[WN / 32],
                            int step) {
    unsigned a[kSteps][kI][4], a_small[kSteps][kI][4];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      TileA::load_fragments(a[s], from, a_offset, step + s);
      if constexpr (MASKED) {
        unsigned mask[kI][4];
        TileA::load_fragments(mask, from + Base::kStage, a_offset, step + s);
#pragma unroll
        for (int e = 0; e < kI * 4; ++e) {
          if (!(__uint_as_float(mask[e / 4][e % 4]) > 0.0f)) a[s][e / 4][e % 4] = 0u;
        }
      }
#pragma unroll
      for (int e = 0; e < kI * 4; ++e) {
        const int i = e / 4, r = e % 4;
        row_sums[2 * i + r % 2] += __uint_as_float(a[s][i][r]);
        split_tf32(__uint_as_float(a[s][i][r]), a[s][i][r], a_small[s][i][r]);
      }
    }
#pragma unroll
    for (int first = 0; first < kJ; first += 4) {
      unsigned b[kSteps][2][4], b_small[kSteps][2][4];
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        TileB::load_fragments(b[s], from + TileA::kBytes, b_offset[first / 4], step + s);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          split_tf32(__uint_as_float(b[s][e / 4][e % 4]), b[s][e / 4][e % 4], b_small[s][e / 4][e % 4]);
        }
      }
      float part[kI][4][4] = {};
#pragma unroll
      for (int s = 0; s < kSteps; ++s) mma::mma_sync_tile<float>(part, a_small[s], b[s]);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) mma::mma_sync_tile<float>(part, a[s], b_small[s]);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) mma::mma_sync_tile<float>(part, a[s], b[s]);
#pragma unroll
      for (int i = 0; i < kI; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[i][first + j][e] += part[i][j][e];
        }
      }
    }
  }

  // The row of sums[i / 2][..][i % 2 * 2 ..] of this lane, and the column of sums[..][j][e % 2], in the block tile.
  __device__ int row_of(int i) const { return row + mma::position(4, i, threadIdx.x % 32 / 4); }
  __device__ int column_of(int j, int e) const { return column + mma::position(4, j, threadIdx.x % 4 * 2 + e); }

  // Computes the sums in float32, from global memory.
  __device__ void add_in_float(const float* a, const float* mask, int a_stride, const float* b, int b_stride,
                               int first_row, int first_column, int m, int n, int k_begin, int k_end) {
#pragma unroll
    for (int i = 0; i < 2 * kI; ++i) {
#pragma unroll
      for (int j = 0; j < kJ; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const long long r = min(first_row + row_of(i), m - 1), c = min(first_column + column_of(j, e), n - 1);
          float sum = 0.0f;
#pragma unroll 1
          for (long long k = k_begin; k < k_end; ++k) {
            const long long at = A_K_MAJOR ? r * a_stride + k : k * a_stride + r;
            const float value = !MASKED || mask[at] > 0.0f ? a[at] : 0.0f;
            sum += value * b[B_K_MAJOR ? c * b_stride + k : k * b_stride + c];
          }
          sums[i / 2][j][i % 2 * 2 + e] = sum;
        }
      }
    }
  }
};

}  // namespace gemm
}  // namespace warpwise
