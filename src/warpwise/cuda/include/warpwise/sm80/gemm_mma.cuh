// The main loop of a block tile on the tensor cores by mma.sync: a cp.async pipeline, operands of any layout and
// alignment. T: __nv_bfloat16, __half, or float, whose products are those of TF32.
#pragma once

#include <warpwise/sm80/gemm_pipeline.cuh>
#include <warpwise/sm80/mma_tile.cuh>

namespace warpwise {
namespace gemm {

// BM x BN: block tile; WM x WN: warp tile; BK: k-tile, in elements. A_WORD, B_WORD: bytes per copy, a divisor of the
// address and the length of every line.
template <class T, int BM_, int BN_, int BK, int WM, int WN, int STAGES, bool A_K_MAJOR, bool B_K_MAJOR, int A_WORD,
          int B_WORD>
struct MmaMainLoop {
  using Element = T;
  static constexpr int BM = BM_, BN = BN_, kTileK = BK, kThreads = (BM / WM) * (BN / WN) * 32;
  static constexpr int kSteps = BK * static_cast<int>(sizeof(T)) / 32;
  using TileA = mma::OperandTile<mma::Side::kA, T, BM, BK * sizeof(T), A_K_MAJOR>;
  using TileB = mma::OperandTile<mma::Side::kB, T, BN, BK * sizeof(T), B_K_MAJOR>;
  static constexpr int kStage = TileA::kBytes + TileB::kBytes, kBytes = STAGES * kStage;

  float sums[WM / 16][WN / 8][4];
  int row, column;  // of the warp tile in the block tile

  __device__ MmaMainLoop() : sums{} {
    const int warp = threadIdx.x / 32;
    row = warp / (BN / WN) * WM;
    column = warp % (BN / WN) * WN;
  }

  // The parameters are those of SimtMainLoop::run.
  __device__ void run(unsigned char* shared, const T* a, int a_stride, const T* b, int b_stride, int first_row,
                      int first_column, int m, int n, int k_begin, int k_end) {
    const auto copy = [&](int stage, int k) {
      unsigned char* const to = shared + stage * kStage;
      TileA::template copy<A_WORD, kThreads>(to, a, a_stride, first_row, m, k, k_end);
      TileB::template copy<B_WORD, kThreads>(to + TileA::kBytes, b, b_stride, first_column, n, k, k_end);
    };
    const unsigned a_offset = TileA::lane_offset(row), b_offset = TileB::lane_offset(column);
    copy_pipeline<STAGES, BK>(k_begin, k_end, copy, [&](int stage, int) {
      const unsigned char* const from = shared + stage * kStage;
      unsigned a_fragments[2][WM / 16][4], b_fragments[2][WN / 16][4];
      TileA::load_fragments(a_fragments[0], from, a_offset, 0);
      TileB::load_fragments(b_fragments[0], from + TileA::kBytes, b_offset, 0);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (step + 1 < kSteps) {
          TileA::load_fragments(a_fragments[(step + 1) % 2], from, a_offset, step + 1);
          TileB::load_fragments(b_fragments[(step + 1) % 2], from + TileA::kBytes, b_offset, step + 1);
        }
        if constexpr (sizeof(T) == 4) {
          mma::round_to_tf32(a_fragments[step % 2]);
          mma::round_to_tf32(b_fragments[step % 2]);
        }
        mma::mma_sync_tile<T>(sums, a_fragments[step % 2], b_fragments[step % 2]);
      }
    });
  }

  // Writes the sums to rows of PITCH floats of shared memory.
  template <int PITCH>
  __device__ void stage_sums(float* to) const {
    constexpr int kSpan = mma::OperandTraits<T>::kSpan;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < WM / 8; ++i) {
      float* const line = to + (row + mma::position(kSpan, i, g)) * PITCH + column;
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
        const float first = sums[i / 2][j][i % 2 * 2], second = sums[i / 2][j][i % 2 * 2 + 1];
        if constexpr (kSpan == 1) {
          *reinterpret_cast<Vector<float, 2>*>(line + j * 8 + t * 2) = {first, second};
        } else {
          line[mma::position(kSpan, j, t * 2)] = first;
          line[mma::position(kSpan, j, t * 2 + 1)] = second;
        }
      }
    }
  }
};

}  // namespace gemm
}  // namespace warpwise
