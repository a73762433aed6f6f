// The main loop of a float32 block tile on the CUDA cores: a cp.async pipeline, operands of any layout and alignment.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/sm80/gemm_pipeline.cuh>
#include <warpwise/sm80/mma.cuh>

namespace warpwise {
namespace gemm {

// LINES rows of A or columns of B, BK of K, in shared memory as rows of K with LINES + 4 floats each. K_MAJOR: K is
// contiguous in global memory, else the lines' dimension is. WORD: bytes per copy of an operand that is not K-major.
//
// K-major: 8 lanes copy 8 adjacent floats of a line, 4 bytes each, so that 32 lanes write 32 banks.
template <int LINES, int BK, bool K_MAJOR, int WORD, int THREADS>
struct FloatTile {
  static constexpr int kPitch = LINES + 4, kFloats = BK * kPitch;

  // All threads copy lines `first` to `first` + LINES of `size`, from `k_begin` of K on. Past an edge are zeros.
  __device__ static void copy(float* to, const float* matrix, int stride, int first, int size, int k_begin, int k_end) {
    const int thread = threadIdx.x;
    if constexpr (K_MAJOR) {
      constexpr int kPass = THREADS / 8;
      static_assert(LINES % kPass == 0 && BK % 8 == 0, "every thread executes the same number of copies");
      const int k = thread % 8, line = thread / 8;
#pragma unroll
      for (int p = 0; p < LINES; p += kPass) {
        const float* const from = matrix + static_cast<long long>(first + line + p) * stride + k_begin + k;
        const bool inside = first + line + p < size;
        float* const into = to + k * kPitch + line + p;
#pragma unroll
        for (int q = 0; q < BK; q += 8)
          mma::cp_async<4>(shared_address(into + q * kPitch), from + q, inside && k_begin + k + q < k_end);
      }
    } else {
      constexpr int kUnit = WORD / 4, kPerRow = LINES / kUnit, kPass = THREADS / kPerRow;
      static_assert(THREADS % kPerRow == 0 && BK % kPass == 0, "every thread executes the same number of copies");
      const int line = thread % kPerRow * kUnit, k = thread / kPerRow;
      const bool inside = first + line < size;
      const float* const from = matrix + static_cast<long long>(k_begin + k) * stride + first + line;
#pragma unroll
      for (int p = 0; p < BK; p += kPass)
        mma::cp_async<WORD>(shared_address(to + (k + p) * kPitch + line), from + static_cast<long long>(p) * stride,
                            inside && k_begin + k + p < k_end);
    }
  }
};

// BM x BN: block tile; WM x WN: warp tile, in 4 x 4 elements over LM x (32 / LM) lanes; BK: k-tile.
template <int BM_, int BN_, int BK, int WM, int WN, int STAGES, bool A_K_MAJOR, bool B_K_MAJOR, int A_WORD, int B_WORD>
struct SimtMainLoop {
  using Element = float;
  static constexpr int BM = BM_, BN = BN_, kTileK = BK, kThreads = (BM / WM) * (BN / WN) * 32;
  static constexpr int LM = WM > WN ? 8 : 4, LN = 32 / LM, kTilesM = WM / LM / 4, kTilesN = WN / LN / 4;
  static_assert(kTilesM > 0 && kTilesN > 0, "a lane computes 4 x 4 elements or more");
  using TileA = FloatTile<BM, BK, A_K_MAJOR, A_WORD, kThreads>;
  using TileB = FloatTile<BN, BK, B_K_MAJOR, B_WORD, kThreads>;
  static constexpr int kStage = TileA::kFloats + TileB::kFloats, kBytes = STAGES * kStage * 4;

  float sums[kTilesM][kTilesN][4][4];
  int row, column;  // of this lane's first element in the block tile

  __device__ SimtMainLoop() : sums{} {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    row = warp / (BN / WN) * WM + lane / LN * 4;
    column = warp % (BN / WN) * WN + lane % LN * 4;
  }

  // Adds the products of rows first_row.. of a (m, k) and columns first_column.. of b (k, n) over [k_begin, k_end).
  // The lines of a and b are `a_stride` and `b_stride` elements apart.
  __device__ void run(unsigned char* shared, const float* a, int a_stride, const float* b, int b_stride, int first_row,
                      int first_column, int m, int n, int k_begin, int k_end) {
    float* const stages = reinterpret_cast<float*>(shared);
    const auto copy = [&](int stage, int k) {
      float* const to = stages + stage * kStage;
      TileA::copy(to, a, a_stride, first_row, m, k, k_end);
      TileB::copy(to + TileA::kFloats, b, b_stride, first_column, n, k, k_end);
    };
    copy_pipeline<STAGES, BK>(k_begin, k_end, copy, [&](int stage, int) {
      const float* const a_tile = stages + stage * kStage + row;
      const float* const b_tile = stages + stage * kStage + TileA::kFloats + column;
#pragma unroll
      for (int i = 0; i < BK; ++i) multiply(a_tile + i * TileA::kPitch, b_tile + i * TileB::kPitch);
    });
  }

  // Writes the sums to rows of PITCH floats of shared memory.
  template <int PITCH>
  __device__ void stage_sums(float* to) const {
#pragma unroll
    for (int p = 0; p < kTilesM; ++p) {
#pragma unroll
      for (int q = 0; q < kTilesN; ++q) {
#pragma unroll
        for (int r = 0; r < 4; ++r)
          store4<true>(to + (row + p * LM * 4 + r) * PITCH + column + q * LN * 4, sums[p][q][r], 4);
      }
    }
  }

 private:
  __device__ void multiply(const float* a_column, const float* b_row) {
    Float4 x[kTilesM], y[kTilesN];
#pragma unroll
    for (int p = 0; p < kTilesM; ++p) x[p] = *reinterpret_cast<const Float4*>(a_column + p * LM * 4);
#pragma unroll
    for (int q = 0; q < kTilesN; ++q) y[q] = *reinterpret_cast<const Float4*>(b_row + q * LN * 4);
#pragma unroll
    for (int j = 0; j < kTilesN * 4; ++j) {
#pragma unroll
      for (int step = 0; step < kTilesM * 4; ++step) {  // serpentine: one operand stays in the reuse cache
        const int r = j % 2 ? kTilesM * 4 - 1 - step : step;
        sums[r / 4][j / 4][r % 4][j % 4] += x[r / 4].at[r % 4] * y[j / 4].at[j % 4];
      }
    }
  }
};

}  // namespace gemm
}  // namespace warpwise
