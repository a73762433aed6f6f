// A float32 matrix product whose operands are computed from indices: the main loop of convolutions as implicit GEMM.
#pragma once

#include <warpwise/core/pack.cuh>

namespace warpwise {

constexpr int kGemmThreads = 128, kColumns = kGemmThreads, kDepth = 8;  // columns of a tile: a thread loads one

// sums(i, j) += sum over depth in [begin, end) of a(row, depth) b(depth), for a tile of ROWS x kColumns. A thread owns
// TM x TN sums: rows TM (thread / (kColumns / TN)) + i, columns TN (thread % (kColumns / TN)) + j. `a(row, depth)`
// returns an element of the left operand and `b(depth)` one of the right operand, in the column threadIdx.x; both
// return zero outside their matrices.
template <int ROWS, int TM, int TN, class A, class B>
__device__ inline void implicit_gemm(float (&sums)[TM][TN], int begin, int end, const A& a, const B& b) {
  static_assert((ROWS / TM) * (kColumns / TN) == kGemmThreads, "the threads' tiles cover the block's");
  static_assert(TN % 4 == 0 && TM % 4 == 0 && ROWS * kDepth % kGemmThreads == 0, "16-byte loads from shared memory");
  // Rows of `left` are 4 mod 32 or 20 mod 32 words apart: the 8 depths x 4 rows that a warp stores are in 32 banks.
  __shared__ __align__(16) float left[kDepth][ROWS + 4], right[kDepth][kColumns];
  const int thread = threadIdx.x;
  const int row = thread / (kColumns / TN) * TM, column = thread % (kColumns / TN) * TN;
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
      for (int j = 0; j < TN; j += 4) *reinterpret_cast<Pack<float>*>(r + j) = *packs(&right[d][column + j]);
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] += l[i] * r[j];
      }
    }
  }
}

// Stores a thread's sums to y: (images, planes, pixels): row i to plane first_plane + top + i, if top + i < rows,
// column left + j to pixel (left + j) % pixels of image (left + j) / pixels. `bias`: (planes) is added, or null. Stores
// of 16 bytes if `pixels` is a multiple of 4 and y is aligned.
template <int TM, int TN>
__device__ inline void store_planes(const float (&sums)[TM][TN], float* y, int top, int rows, int left, int images,
                                    int planes, int first_plane, int pixels, const float* bias) {
  const bool vectors = pixels % 4 == 0 && aligned(static_cast<const float*>(y));
#pragma unroll
  for (int j = 0; j < TN; j += 4) {
    const int image = (left + j) / pixels;
    if (image >= images) break;
    if (vectors) {
      float* const to = y + (static_cast<long long>(image) * planes + first_plane) * pixels + left + j - image * pixels;
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        if (top + i >= rows) break;
        const float shift = bias ? bias[first_plane + top + i] : 0.0f;
        const Pack<float> four = {
            {sums[i][j] + shift, sums[i][j + 1] + shift, sums[i][j + 2] + shift, sums[i][j + 3] + shift}};
        *packs(to + static_cast<long long>(top + i) * pixels) = four;
      }
      continue;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int at = left + j + e, to_image = at / pixels;
      if (to_image >= images) break;
      float* const to = y + (static_cast<long long>(to_image) * planes + first_plane) * pixels + at - to_image * pixels;
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        if (top + i >= rows) break;
        to[static_cast<long long>(top + i) * pixels] = sums[i][j + e] + (bias ? bias[first_plane + top + i] : 0.0f);
      }
    }
  }
}

}  // namespace warpwise
