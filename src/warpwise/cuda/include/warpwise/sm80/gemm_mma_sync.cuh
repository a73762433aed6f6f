// GEMM by mma.sync: a cp.async pipeline that continues from tile to tile, operands of any layout and alignment.
#pragma once

#include <warpwise/sm80/mma_tile.cuh>
#include <warpwise/sm90/tile_scheduler.cuh>

// a: (m, k), b: (k, n), c: (m, n), c row-major. A_K_MAJOR: the rows of a are contiguous and a_stride elements apart,
// else its columns. B_K_MAJOR: the columns of b are contiguous and b_stride elements apart, else its rows. A_WORD,
// B_WORD: bytes per copy, a divisor of the address and the length of every line. C_ALIGNED: rows of c are 16-byte
// aligned. BM x BN: block tile; WM x WN: warp tile; K_BYTES: bytes of a k-tile along k. float: products of TF32, whose
// operands are rounded to nearest. Grid: any number of blocks, BLOCKS per SM, which compute tiles in grouped raster
// order with `group` rows. Dynamic shared memory: STAGES * (BM + BN) * K_BYTES bytes.
template <class T, class Out, int BM, int BN, int WM, int WN, int K_BYTES, int STAGES, int BLOCKS, bool A_K_MAJOR,
          bool B_K_MAJOR, int A_WORD, int B_WORD, bool C_ALIGNED>
__global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32, BLOCKS) matmul_mma_sync(
    const T* __restrict__ a, int a_stride, const T* __restrict__ b, int b_stride, Out* __restrict__ c, int m, int n,
    int k, int tiles_m, int tiles_n, int group) {
  using namespace warpwise::mma;
  using TileA = OperandTile<Side::kA, T, BM, K_BYTES, A_K_MAJOR>;
  using TileB = OperandTile<Side::kB, T, BN, K_BYTES, B_K_MAJOR>;
  constexpr int kTileK = K_BYTES / sizeof(T), kSteps = K_BYTES / 32, kStage = TileA::kBytes + TileB::kBytes;
  constexpr int kThreads = (BM / WM) * (BN / WN) * 32;
  static_assert(WM % 32 == 0 && WN % 32 == 0 && kSteps % 2 == 0, "16-byte stores; double-buffered fragments");

  extern __shared__ __align__(1024) unsigned char shared[];
  const auto tile_at = [&](int tile) -> warpwise::sm90::Tile {  // its first row and column
    const auto at = warpwise::sm90::TileScheduler{tiles_m, tiles_n, group}.at(tile);
    return {at.row * BM, at.column * BN};
  };
  const int tiles = tiles_m * tiles_n;
  const int warp = threadIdx.x / 32, row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;

  int next_tile = blockIdx.x, next_k = 0;  // the tile and k-tile to copy next; zeros after the last tile
  auto next = tile_at(next_tile);
  const auto copy = [&](int stage) {
    unsigned char* const to = shared + stage * kStage;
    const bool valid = next_tile < tiles;
    TileA::template copy<A_WORD, kThreads>(to, a, a_stride, next.row, valid ? m : 0, next_k, k);
    TileB::template copy<B_WORD, kThreads>(to + TileA::kBytes, b, b_stride, next.column, valid ? n : 0, next_k, k);
    __pipeline_commit();
  };
  const auto advance = [&] {
    next_k += kTileK;
    if (next_k >= k) {
      next_k = 0;
      next_tile += gridDim.x;
      if (next_tile < tiles) next = tile_at(next_tile);
    }
  };

  unsigned a_fragments[2][WM / 16][4], b_fragments[2][WN / 16][4];
  const unsigned a_offset = TileA::lane_offset(row), b_offset = TileB::lane_offset(column);
  const auto load_fragments = [&](int stage, int step, int buffer) {
    const unsigned char* const from = shared + stage * kStage;
    TileA::load_fragments(a_fragments[buffer], from, a_offset, step);
    TileB::load_fragments(b_fragments[buffer], from + TileA::kBytes, b_offset, step);
  };

#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    copy(stage);
    advance();
  }
  __pipeline_wait_prior(STAGES - 2);
  __syncthreads();
  load_fragments(0, 0, 0);
  int stage = 0, free_stage = STAGES - 1;
  for (int tile_index = blockIdx.x; tile_index < tiles; tile_index += gridDim.x) {
    typename OperandTraits<T>::Sum sums[WM / 16][WN / 8][4] = {};
    for (int k_done = 0; k_done < k; k_done += kTileK) {
      const int next_stage = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (step == kSteps - 1) {  // load fragments of the next k-tile, also of the next tile, during the last mma.sync
          __pipeline_wait_prior(STAGES - 2);
          __syncthreads();
          load_fragments(next_stage, 0, 0);
        } else {
          load_fragments(stage, step + 1, (step + 1) % 2);
        }
        if (step == 0) copy(free_stage);
        if constexpr (OperandTraits<T>::kSpan == 4) {
          round_to_tf32(a_fragments[step % 2]);
          round_to_tf32(b_fragments[step % 2]);
        }
        mma_sync_tile<T>(sums, a_fragments[step % 2], b_fragments[step % 2]);
      }
      advance();
      free_stage = stage;
      stage = next_stage;
    }
    const auto tile = tile_at(tile_index);
    store<T, C_ALIGNED>(sums, c, m, n, tile.row + row, tile.column + column);
  }
  __pipeline_wait_prior(0);  // copies of zeros after the last tile must complete before the block exits
}
