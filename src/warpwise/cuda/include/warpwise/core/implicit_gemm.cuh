// A float32 matrix product whose operands are computed from indices: the main loop of convolutions as implicit GEMM.
#pragma once

#include <warpwise/core/pack.cuh>

namespace warpwise {

constexpr int kGemmThreads = 128, kColumns = kGemmThreads, kDepth = 8;  // columns of a tile: a thread loads one

template <int TN>
__device__ inline int gemm_column() {
  return threadIdx.x % (kColumns / TN) * 4;
}
template <int TN>
__device__ constexpr int gemm_step(int j) {
  return j / 4 * (4 * kColumns / TN) + j % 4;
}

// sums(i, j) += sum over depth in [begin, end) of a(row, depth) b(depth), for a tile of ROWS x kColumns. A thread owns
// TM x TN sums: rows TM (thread / (kColumns / TN)) + i, columns gemm_column<TN>() + gemm_step<TN>(j): adjacent lanes
// have adjacent vectors of four columns, which they load and store without bank conflicts and gaps. `a(row, depth)`
// returns an element of the left operand and `b(depth)` one of the right operand, in the column threadIdx.x; both
// return zero outside their matrices.
template <int ROWS, int TM, int TN, class A, class B>
__device__ inline void implicit_gemm(float (&sums)[TM][TN], int begin, int end, const A& a, const B& b) {
  static_assert((ROWS / TM) * (kColumns / TN) == kGemmThreads, "the threads' tiles cover the block's");
  static_assert(TN % 4 == 0 && TM % 4 == 0 && ROWS * kDepth % kGemmThreads == 0, "16-byte loads from shared memory");
  // Rows of `left` are 4 mod 32 or 20 mod 32 words apart: the 8 depths x 4 rows that a warp stores are in 32 banks.
  __shared__ __align__(16) float left[kDepth][ROWS + 4], right[kDepth][kColumns];
  const int thread = threadIdx.x;
  const int row = thread / (kColumns / TN) * TM, column = gemm_column<TN>();
  constexpr int kLeft = ROWS * kDepth / kGemmThreads;
  float next_left[kLeft], next_right[kDepth];
  const auto fetch = [&](int depth) {
#pragma unroll
    for (int e = 0; e < kLeft; ++e) {
      const int at = e * kGemmThreads + thread;
      next_left[e] = depth + at % kDepth < end ? a(at / kDepth, depth + at % kDepth) : 0.0f;
    }
#pragma unroll
    for (int d = 0; d < kDepth; ++d) next_right[d] = depth + d < end ? b(depth + d) : 0.0f;
  };
  fetch(begin);
  for (int depth = begin; depth < end; depth += kDepth) {
    __syncthreads();  // the reads of the previous step are complete
#pragma unroll
    for (int e = 0; e < kLeft; ++e) {
      const int at = e * kGemmThreads + thread;
      left[at % kDepth][at / kDepth] = next_left[e];
    }
#pragma unroll
    for (int d = 0; d < kDepth; ++d) right[d][thread] = next_right[d];
    __syncthreads();
    if (depth + kDepth < end) fetch(depth + kDepth);  // its latency is hidden by the multiplications
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      float l[TM], r[TN];
#pragma unroll
      for (int i = 0; i < TM; i += 4) *reinterpret_cast<Pack<float>*>(l + i) = *packs(&left[d][row + i]);
#pragma unroll
      for (int j = 0; j < TN; j += 4)
        *reinterpret_cast<Pack<float>*>(r + j) = *packs(&right[d][column + gemm_step<TN>(j)]);
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] += l[i] * r[j];
      }
    }
  }
}

// Stores the block's sums to y: (images, planes, pixels): row i to plane first_plane + top + i, if top + i < rows,
// column at = left + gemm_step<TN>(j) to pixel at % pixels of image at / pixels. `bias`: (planes) is added, or null.
// `top` and `left` are those of the thread's sums; all threads of the block call this. Stores of 16 bytes if `pixels`
// is a multiple of 4 and y is aligned; else a row of each group of TM passes through shared memory at a time, so that
// adjacent lanes store adjacent pixels.
template <int TM, int TN>
__device__ inline void store_planes(const float (&sums)[TM][TN], float* y, int top, int rows, int left, int images,
                                    int planes, int first_plane, int pixels, const float* bias) {
  if (pixels % 4 == 0 && aligned(static_cast<const float*>(y))) {
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      const int at = left + gemm_step<TN>(j), image = at / pixels;
      if (image >= images) break;
      float* const to = y + (static_cast<long long>(image) * planes + first_plane) * pixels + at - image * pixels;
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        if (top + i >= rows) break;
        const float shift = bias ? bias[first_plane + top + i] : 0.0f;
        const Pack<float> four = {
            {sums[i][j] + shift, sums[i][j + 1] + shift, sums[i][j + 2] + shift, sums[i][j + 3] + shift}};
        *packs(to + static_cast<long long>(top + i) * pixels) = four;
      }
    }
    return;
  }
  constexpr int kGroups = kGemmThreads / (kColumns / TN);  // of TM rows
  __shared__ __align__(16) float staged[kGroups][kColumns];
  const int group = threadIdx.x / (kColumns / TN), column = gemm_column<TN>();
  const int first = top - group * TM, at = left - column + threadIdx.x, image = at / pixels;  // the block's first row
  float* const to = y + (static_cast<long long>(image) * planes + first_plane) * pixels + at - image * pixels;
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    __syncthreads();  // the reads of the previous row are complete
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      *packs(&staged[group][column + gemm_step<TN>(j)]) = *reinterpret_cast<const Pack<float>*>(&sums[i][j]);
    }
    __syncthreads();
    if (image >= images) continue;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int row = first + g * TM + i;
      if (row >= rows) break;
      to[static_cast<long long>(row) * pixels] = staged[g][threadIdx.x] + (bias ? bias[first_plane + row] : 0.0f);
    }
  }
}

}  // namespace warpwise
