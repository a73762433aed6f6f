// K-tiles are loaded by cp.async, two ahead of the arithmetic: loads overlap with it and take no registers.
//
// A multiply-add reads up to three registers, and each of the two banks of the register file supplies one word per
// clock. In the order of k08, a quarter of the multiply-adds wait for a bank. This kernel traverses the thread tile in
// serpentine order, one column down and the next up: the element of B stays in the operand reuse cache along a column,
// the element of A at each turn. The two remaining operands are in different banks if the accumulators are not
// allocated in aligned groups of four: hence STAGED and scalar stores below.

#include <cuda_pipeline.h>
#include <warpwise/core/float4.cuh>

// a: (m, k), b: (k, n), c: (m, n), row-major. ALIGNED: n is a multiple of 4, and b, c are 16-byte aligned. BM x BN:
// block tile of C; BK: k-tile; WM x WN: warp tile, distributed in 4 x 4 elements over LM x (32 / LM) lanes. STAGED: C
// is stored through shared memory by 16-byte stores, else element by element. Grid: tiles_m * tiles_n blocks, in
// grouped raster order: groups of `group` rows of tiles, column by column within a group, for reuse in L2. Dynamic
// shared memory: STAGES * BK * (BM + 4 + BN) * 4 bytes.
template <int BM, int BN, int BK, int WM, int WN, int LM, int STAGES, int BLOCKS, bool STAGED, bool ALIGNED,
          int THREADS = (BM / WM) * (BN / WN) * 32>
__global__ void __launch_bounds__(THREADS, BLOCKS) matmul_async_copies(const float* __restrict__ a,
                                                                       const float* __restrict__ b,
                                                                       float* __restrict__ c, int m, int n, int k,
                                                                       int tiles_m, int tiles_n, int group) {
  constexpr int LN = 32 / LM, kThreadTilesM = WM / LM / 4, kThreadTilesN = WN / LN / 4;
  constexpr int kPitchA = BM + 4;           // the k-tile of A is stored transposed: a row of it is a column of A
  constexpr int kCopyRowsA = THREADS / BK;  // rows of A that all threads copy at once, 4 bytes each
  constexpr int kBytesB = ALIGNED ? 16 : 4, kPerRowB = BN * 4 / kBytesB, kCopyRowsB = THREADS / kPerRowB;
  static_assert(THREADS % BK == 0 && BM % kCopyRowsA == 0 && THREADS % kPerRowB == 0 && BK % kCopyRowsB == 0,
                "every thread executes the same number of copies");
  static_assert(BK % 2 == 0, "fragments are double-buffered");

  extern __shared__ __align__(16) float shared[];
  float* const a_stages = shared;
  float* const b_stages = shared + STAGES * BK * kPitchA;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int per_group = group * tiles_n, first_tile = static_cast<int>(blockIdx.x) / per_group * group;
  const int in_group = min(group, tiles_m - first_tile), tile_in_group = static_cast<int>(blockIdx.x) % per_group;
  const int first_row = (first_tile + tile_in_group % in_group) * BM, first_column = tile_in_group / in_group * BN;
  const int row =
      warp / (BN / WN) * WM + lane / LN * 4;  // of this lane's first 4 x 4 elements, relative to the block tile
  const int column = warp % (BN / WN) * WN + lane % LN * 4;

  const int a_k = thread % BK, a_row = thread / BK;
  const int b_row = thread / kPerRowB, b_column = thread % kPerRowB * (kBytesB / 4);
  const bool b_inside = first_column + b_column < n;
  unsigned a_inside = 0;  // bit i: the row of copy i exists
#pragma unroll
  for (int i = 0; i < BM / kCopyRowsA; ++i) a_inside |= (first_row + a_row + i * kCopyRowsA < m ? 1u : 0u) << i;
  const float* const a_from = a + static_cast<long long>(first_row + a_row) * k + a_k;
  const float* const b_from = b + static_cast<long long>(b_row) * n + first_column + b_column;

  // Elements past an edge are not read: zeros are written to shared memory.
  const auto copy = [&](int k_tile, int stage) {
    const int left = k - k_tile * BK;
    float* const a_to = a_stages + (stage * BK + a_k) * kPitchA + a_row;
#pragma unroll
    for (int i = 0; i < BM / kCopyRowsA; ++i) {
      const bool inside = a_k < left && (a_inside >> i & 1);
      const float* from = a_from + k_tile * BK + static_cast<long long>(i * kCopyRowsA) * k;
      __pipeline_memcpy_async(a_to + i * kCopyRowsA, inside ? from : a, 4, inside ? 0 : 4);
    }
    float* const b_to = b_stages + (stage * BK + b_row) * BN + b_column;
#pragma unroll
    for (int i = 0; i < BK / kCopyRowsB; ++i) {
      const bool inside = b_inside && b_row + i * kCopyRowsB < left;
      const float* from = b_from + static_cast<long long>(k_tile * BK + i * kCopyRowsB) * n;
      __pipeline_memcpy_async(b_to + i * kCopyRowsB * BN, inside ? from : b, kBytesB, inside ? 0 : kBytesB);
    }
  };

  warpwise::Float4 a_fragments[2][kThreadTilesM], b_fragments[2][kThreadTilesN];
  const auto load_fragments = [&](int stage, int i, int buffer) {
    const float* const a_ptr = a_stages + (stage * BK + i) * kPitchA + row;
    const float* const b_ptr = b_stages + (stage * BK + i) * BN + column;
#pragma unroll
    for (int p = 0; p < kThreadTilesM; ++p)
      a_fragments[buffer][p] = *reinterpret_cast<const warpwise::Float4*>(a_ptr + p * LM * 4);
#pragma unroll
    for (int q = 0; q < kThreadTilesN; ++q)
      b_fragments[buffer][q] = *reinterpret_cast<const warpwise::Float4*>(b_ptr + q * LN * 4);
  };

  float sums[kThreadTilesM][kThreadTilesN][4][4] = {};
  const int k_tiles = (k + BK - 1) / BK;
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (stage < k_tiles) copy(stage, stage);
    __pipeline_commit();
  }
  __pipeline_wait_prior(STAGES - 2);
  __syncthreads();
  load_fragments(0, 0, 0);
  int stage = 0, free_stage = STAGES - 1;
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    const int next = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
    for (int i = 0; i < BK; ++i) {
      // The first fragments of the next k-tile are loaded during the last multiply-adds of this one.
      if (i == BK - 1) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
      }
      if (i + 1 < BK)
        load_fragments(stage, i + 1, (i + 1) % 2);
      else if (k_tile + 1 < k_tiles)
        load_fragments(next, 0, 0);
      if (i == 0) {
        if (k_tile + STAGES - 1 < k_tiles) copy(k_tile + STAGES - 1, free_stage);
        __pipeline_commit();
      }
#pragma unroll
      for (int j = 0; j < kThreadTilesN * 4; ++j) {
#pragma unroll
        for (int step = 0; step < kThreadTilesM * 4; ++step) {
          const int r = j % 2 ? kThreadTilesM * 4 - 1 - step : step;
          sums[r / 4][j / 4][r % 4][j % 4] += a_fragments[i % 2][r / 4].at[r % 4] * b_fragments[i % 2][j / 4].at[j % 4];
        }
      }
    }
    free_stage = stage;
    stage = next;
  }

  __syncthreads();
#pragma unroll
  for (int p = 0; p < kThreadTilesM; ++p) {
#pragma unroll
    for (int q = 0; q < kThreadTilesN; ++q) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const long long c_row = first_row + row + p * LM * 4 + r;
        const int c_column = first_column + column + q * LN * 4, left = c_row < m ? n - c_column : 0;
        if (STAGED) {
          volatile float* const own_words = shared + thread * 4;
#pragma unroll
          for (int e = 0; e < 4; ++e) own_words[e] = sums[p][q][r][e];
          const warpwise::Float4 vector = *reinterpret_cast<const warpwise::Float4*>(shared + thread * 4);
          warpwise::store4<ALIGNED>(c + c_row * n + c_column, vector.at, left);
        } else {
          warpwise::store4<false>(c + c_row * n + c_column, sums[p][q][r], left);
        }
      }
    }
  }
}
