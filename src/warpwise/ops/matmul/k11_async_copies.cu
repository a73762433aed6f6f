// Slices arrive by cp.async, two ahead of the arithmetic, which never waits for them nor spends registers on them.
//
// A multiply-add reads up to three registers, and a register file of two banks gives one word of each a clock. k09's
// order made a quarter of them wait for a bank. Here a column of the thread's tile is walked down and the next one up:
// the element of B stays in the operand cache along a column, the element of A around each turn. Two reads are left,
// and they lie in different banks where the sums are not tied to aligned quads: hence STAGED and single stores below.

#include <cuda_pipeline.h>
#include <warpwise/core/float4.cuh>

constexpr int threads_of(int bm, int bn, int wm, int wn) { return (bm / wm) * (bn / wn) * 32; }

// a: (m, k), b: (k, n), c: (m, n), row-major. ALIGNED: n is a multiple of 4 and b, c lie on 16 bytes.
// BM x BN: the block's tile of C; BK: the depth of a slice; WM x WN: a warp's tile, dealt in quads of 4 x 4 to LM x
// (32 / LM) lanes. STAGED: C leaves through shared memory in quads, else element by element.
// Grid: tiles_m * tiles_n blocks, in groups of `group` rows of tiles, column by column: what is in flight shares L2.
// Dynamic shared memory: STAGES * BK * (BM + 4 + BN) * 4 bytes.
template <int BM, int BN, int BK, int WM, int WN, int LM, int STAGES, int BLOCKS, bool STAGED, bool ALIGNED,
          int THREADS = threads_of(BM, BN, WM, WN)>
__global__ void __launch_bounds__(THREADS, BLOCKS) matmul_async_copies(const float* __restrict__ a,
                                                                       const float* __restrict__ b,
                                                                       float* __restrict__ c, int m, int n, int k,
                                                                       int tiles_m, int tiles_n, int group) {
  constexpr int LN = 32 / LM, kQuadsM = WM / LM / 4, kQuadsN = WN / LN / 4;
  constexpr int kStrideA = BM + 4;      // A's slice is transposed: a row of it is a column of A
  constexpr int kRowsA = THREADS / BK;  // rows of A that one round of copies reaches, 4 bytes a thread
  constexpr int kBytesB = ALIGNED ? 16 : 4, kPerRowB = BN * 4 / kBytesB, kRowsB = THREADS / kPerRowB;
  static_assert(THREADS % BK == 0 && BM % kRowsA == 0 && THREADS % kPerRowB == 0 && BK % kRowsB == 0, "whole rounds");
  static_assert(BK % 2 == 0, "fragments alternate");

  extern __shared__ __align__(16) float shared[];
  float* const a_slices = shared;
  float* const b_slices = shared + STAGES * BK * kStrideA;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int per_group = group * tiles_n, first_tile = static_cast<int>(blockIdx.x) / per_group * group;
  const int in_group = min(group, tiles_m - first_tile), place = static_cast<int>(blockIdx.x) % per_group;
  const int first_row = (first_tile + place % in_group) * BM, first_column = place / in_group * BN;
  const int row = warp / (BN / WN) * WM + lane / LN * 4;  // of this lane's first quad, in the tile
  const int column = warp % (BN / WN) * WN + lane % LN * 4;

  const int a_k = thread % BK, a_row = thread / BK;
  const int b_row = thread / kPerRowB, b_column = thread % kPerRowB * (kBytesB / 4);
  const bool b_inside = first_column + b_column < n;
  unsigned a_inside = 0;  // bit i: round i's row exists
#pragma unroll
  for (int i = 0; i < BM / kRowsA; ++i) a_inside |= (first_row + a_row + i * kRowsA < m ? 1u : 0u) << i;
  const float* const a_from = a + static_cast<long long>(first_row + a_row) * k + a_k;
  const float* const b_from = b + static_cast<long long>(b_row) * n + first_column + b_column;

  // What lies past an edge is not read: its place in the slice is filled with zeros.
  const auto copy = [&](int slice, int stage) {
    const int left = k - slice * BK;
    float* const a_to = a_slices + (stage * BK + a_k) * kStrideA + a_row;
#pragma unroll
    for (int i = 0; i < BM / kRowsA; ++i) {
      const bool inside = a_k < left && (a_inside >> i & 1);
      const float* from = a_from + slice * BK + static_cast<long long>(i * kRowsA) * k;
      __pipeline_memcpy_async(a_to + i * kRowsA, inside ? from : a, 4, inside ? 0 : 4);
    }
    float* const b_to = b_slices + (stage * BK + b_row) * BN + b_column;
#pragma unroll
    for (int i = 0; i < BK / kRowsB; ++i) {
      const bool inside = b_inside && b_row + i * kRowsB < left;
      const float* from = b_from + static_cast<long long>(slice * BK + i * kRowsB) * n;
      __pipeline_memcpy_async(b_to + i * kRowsB * BN, inside ? from : b, kBytesB, inside ? 0 : kBytesB);
    }
  };

  warpwise::Float4 a_quads[2][kQuadsM], b_quads[2][kQuadsN];
  const auto fetch = [&](int stage, int i, int into) {
    const float* const a_now = a_slices + (stage * BK + i) * kStrideA + row;
    const float* const b_now = b_slices + (stage * BK + i) * BN + column;
#pragma unroll
    for (int p = 0; p < kQuadsM; ++p) a_quads[into][p] = *reinterpret_cast<const warpwise::Float4*>(a_now + p * LM * 4);
#pragma unroll
    for (int q = 0; q < kQuadsN; ++q) b_quads[into][q] = *reinterpret_cast<const warpwise::Float4*>(b_now + q * LN * 4);
  };

  float sums[kQuadsM][kQuadsN][4][4] = {};
  const int slices = (k + BK - 1) / BK;
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (stage < slices) copy(stage, stage);
    __pipeline_commit();
  }
  __pipeline_wait_prior(STAGES - 2);
  __syncthreads();
  fetch(0, 0, 0);
  int stage = 0, freed = STAGES - 1;
  for (int slice = 0; slice < slices; ++slice) {
    const int next = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
    for (int i = 0; i < BK; ++i) {
      // The next slice's first fragment is fetched under the last products of this one: nobody starts a slice waiting.
      if (i == BK - 1) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
      }
      if (i + 1 < BK)
        fetch(stage, i + 1, (i + 1) % 2);
      else if (slice + 1 < slices)
        fetch(next, 0, 0);
      if (i == 0) {
        if (slice + STAGES - 1 < slices) copy(slice + STAGES - 1, freed);
        __pipeline_commit();
      }
#pragma unroll
      for (int j = 0; j < kQuadsN * 4; ++j) {
#pragma unroll
        for (int step = 0; step < kQuadsM * 4; ++step) {
          const int r = j % 2 ? kQuadsM * 4 - 1 - step : step;
          sums[r / 4][j / 4][r % 4][j % 4] += a_quads[i % 2][r / 4].at[r % 4] * b_quads[i % 2][j / 4].at[j % 4];
        }
      }
    }
    freed = stage;
    stage = next;
  }

  __syncthreads();
#pragma unroll
  for (int p = 0; p < kQuadsM; ++p) {
#pragma unroll
    for (int q = 0; q < kQuadsN; ++q) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const long long c_row = first_row + row + p * LM * 4 + r;
        const int c_column = first_column + column + q * LN * 4, left = c_row < m ? n - c_column : 0;
        if (STAGED) {
          volatile float* const mine = shared + thread * 4;
#pragma unroll
          for (int e = 0; e < 4; ++e) mine[e] = sums[p][q][r][e];
          const warpwise::Float4 quad = *reinterpret_cast<const warpwise::Float4*>(shared + thread * 4);
          warpwise::store4<ALIGNED>(c + c_row * n + c_column, quad.at, left);
        } else {
          warpwise::store4<false>(c + c_row * n + c_column, sums[p][q][r], left);
        }
      }
    }
  }
}
