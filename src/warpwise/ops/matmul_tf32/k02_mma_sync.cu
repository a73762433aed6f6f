// TF32 by mma.sync for Ampere: a cp.async pipeline, fragments loaded one step ahead, two blocks per SM.
//
// A float is as wide as a pair of 2-byte elements, so ldmatrix loads K-major operands; it cannot transpose 4-byte
// elements. Fragments of an MN-major operand, such as a row-major B, are loaded four floats at a time: the four belong
// to four groups of columns, and the columns of a group are four apart. The sums of a lane are then adjacent, 16 bytes
// per store.

#include <warpwise/sm80/mma_tile.cuh>

namespace mma = warpwise::mma;

constexpr int threads_of(int bm, int bn, int wm, int wn) { return (bm / wm) * (bn / wn) * 32; }

// a: (m, k), b: (k, n), c: (m, n), c row-major. A_K_MAJOR: the rows of a are contiguous and a_stride elements apart,
// else its columns. B_K_MAJOR: the columns of b are contiguous and b_stride elements apart, else its rows. A_WORD,
// B_WORD: bytes per copy, a divisor of the address and the length of every line. C_ALIGNED: rows of c are 16-byte
// aligned. BM x BN: block tile; WM x WN: warp tile; K_BYTES: bytes of a k-tile along k. Grid: tiles_m * tiles_n
// blocks, in grouped raster order with `group` rows of tiles. Dynamic shared memory: STAGES * (BM + BN) * K_BYTES
// bytes.
template <int BM, int BN, int WM, int WN, int K_BYTES, int STAGES, int BLOCKS, bool A_K_MAJOR, bool B_K_MAJOR,
          int A_WORD, int B_WORD, bool C_ALIGNED, int THREADS = threads_of(BM, BN, WM, WN)>
__global__ void __launch_bounds__(THREADS, BLOCKS) matmul_mma_sync(const float* __restrict__ a, int a_stride,
                                                                   const float* __restrict__ b, int b_stride,
                                                                   float* __restrict__ c, int m, int n, int k,
                                                                   int tiles_m, int tiles_n, int group) {
  using TileA = mma::OperandTile<mma::Side::kA, float, BM, K_BYTES, A_K_MAJOR>;
  using TileB = mma::OperandTile<mma::Side::kB, float, BN, K_BYTES, B_K_MAJOR>;
  constexpr int kTileK = K_BYTES / 4, kSteps = K_BYTES / 32, kStage = TileA::kBytes + TileB::kBytes;
  static_assert(WM % 32 == 0 && WN % 32 == 0 && kSteps % 2 == 0, "16-byte stores; double-buffered fragments");

  extern __shared__ __align__(1024) unsigned char shared[];
  const int per_group = group * tiles_n, first_tile = static_cast<int>(blockIdx.x) / per_group * group;
  const int in_group = min(group, tiles_m - first_tile), tile_in_group = static_cast<int>(blockIdx.x) % per_group;
  const int first_row = (first_tile + tile_in_group % in_group) * BM, first_column = tile_in_group / in_group * BN;
  const int warp = threadIdx.x / 32, row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;

  const auto copy = [&](int k_tile, int stage) {
    unsigned char* const to = shared + stage * kStage;
    TileA::template copy<A_WORD, THREADS>(to, a, a_stride, first_row, m, k_tile * kTileK, k);
    TileB::template copy<B_WORD, THREADS>(to + TileA::kBytes, b, b_stride, first_column, n, k_tile * kTileK, k);
  };

  unsigned a_fragments[2][WM / 16][4], b_fragments[2][WN / 16][4];
  const unsigned a_offset = TileA::lane_offset(row), b_offset = TileB::lane_offset(column);
  const auto load_fragments = [&](int stage, int step, int buffer) {
    const unsigned char* const from = shared + stage * kStage;
    TileA::load_fragments(a_fragments[buffer], from, a_offset, step);
    TileB::load_fragments(b_fragments[buffer], from + TileA::kBytes, b_offset, step);
  };

  float sums[WM / 16][WN / 8][4] = {};
  const int k_tiles = (k + kTileK - 1) / kTileK;
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    copy(stage, stage);
    __pipeline_commit();
  }
  __pipeline_wait_prior(STAGES - 2);
  __syncthreads();
  load_fragments(0, 0, 0);
  int stage = 0, free_stage = STAGES - 1;
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    const int next = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step < kSteps - 1) {
        load_fragments(stage, step + 1, (step + 1) % 2);
      } else {  // load fragments of the next k-tile during the last mma.sync of this one
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        load_fragments(next, 0, 0);
      }
      if (step == 0) {
        copy(k_tile + STAGES - 1, free_stage);
        __pipeline_commit();
      }
      mma::round_to_tf32(a_fragments[step % 2]);
      mma::round_to_tf32(b_fragments[step % 2]);
      mma::mma_sync_tile<float>(sums, a_fragments[step % 2], b_fragments[step % 2]);
    }
    free_stage = stage;
    stage = next;
  }
  __pipeline_wait_prior(0);  // copies of zeros after the last k-tile must complete before the block exits
  mma::store<float, C_ALIGNED>(sums, c, m, n, first_row + row, first_column + column);
}
