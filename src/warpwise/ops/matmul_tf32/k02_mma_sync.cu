// TF32 as Ampere feeds it: slices by cp.async, fragments a step ahead, mma.sync of 16 x 8 x 8, two blocks an SM.
//
// A float of a slice is as wide as a pair of 2-byte elements, so that rows along k are fetched by ldmatrix all the
// same; it cannot transpose them. Lines across k, of a row-major B say, are read by quads: a lane's four neighbours go
// to four groups of columns, and the columns of a group lie four apart. The sums then come out as neighbours, 16 bytes
// a store.

#include <warpwise/sm80/mma_tile.cuh>

namespace mma = warpwise::mma;

constexpr int threads_of(int bm, int bn, int wm, int wn) { return (bm / wm) * (bn / wn) * 32; }

// To nearest, ties away from zero: half of the last place kept is added, and the product does not look at what is
// below. Infinity stays as it is, and NaN, whose bits might overflow. (cvt.rna.tf32 clears the lower bits too.)
template <int COUNT>
__device__ inline void round_to_tf32(unsigned (&registers)[COUNT][4]) {
#pragma unroll
  for (int i = 0; i < COUNT * 4; ++i) {
    unsigned& word = registers[i / 4][i % 4];
    if (fabsf(__uint_as_float(word)) < __uint_as_float(0x7f800000)) word += 0x1000;
  }
}

// a: (m, k), b: (k, n), c: (m, n), c row-major. A_ALONG: a's rows are contiguous and lie a_stride elements apart, else
// its columns; B_ALONG: b's columns are contiguous and lie b_stride elements apart, else its rows. A_WORD, B_WORD: the
// bytes that one copy may move: lines lie on them and are whole numbers of them. C_ALIGNED: c's rows lie on 16 bytes.
// BM x BN: the block's tile; WM x WN: a warp's; DEPTH: bytes of k in a slice.
// Grid: tiles_m * tiles_n blocks, in groups of `group` rows of tiles. Dynamic shared memory: STAGES * (BM + BN) *
// DEPTH.
template <int BM, int BN, int WM, int WN, int DEPTH, int STAGES, int BLOCKS, bool A_ALONG, bool B_ALONG, int A_WORD,
          int B_WORD, bool C_ALIGNED, int THREADS = threads_of(BM, BN, WM, WN)>
__global__ void __launch_bounds__(THREADS, BLOCKS) matmul_mma_sync(const float* __restrict__ a, int a_stride,
                                                                   const float* __restrict__ b, int b_stride,
                                                                   float* __restrict__ c, int m, int n, int k,
                                                                   int tiles_m, int tiles_n, int group) {
  using SliceA = mma::OperandTile<mma::Side::kA, float, BM, DEPTH, A_ALONG>;
  using SliceB = mma::OperandTile<mma::Side::kB, float, BN, DEPTH, B_ALONG>;
  constexpr int kDepth = DEPTH / 4, kSteps = DEPTH / 32, kStage = SliceA::kBytes + SliceB::kBytes;
  static_assert(WM % 32 == 0 && WN % 32 == 0 && kSteps % 2 == 0, "whole stores; fragments alternate");

  extern __shared__ __align__(1024) unsigned char shared[];
  const int per_group = group * tiles_n, first_tile = static_cast<int>(blockIdx.x) / per_group * group;
  const int in_group = min(group, tiles_m - first_tile), within = static_cast<int>(blockIdx.x) % per_group;
  const int first_row = (first_tile + within % in_group) * BM, first_column = within / in_group * BN;
  const int warp = threadIdx.x / 32, row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;

  const auto copy = [&](int slice, int stage) {
    unsigned char* const to = shared + stage * kStage;
    SliceA::template copy<A_WORD, THREADS>(to, a, a_stride, first_row, m, slice * kDepth, k);
    SliceB::template copy<B_WORD, THREADS>(to + SliceA::kBytes, b, b_stride, first_column, n, slice * kDepth, k);
  };

  unsigned a_now[2][WM / 16][4], b_now[2][WN / 16][4];
  const unsigned a_place = SliceA::place(row), b_place = SliceB::place(column);
  const auto fetch = [&](int stage, int step, int into) {
    const unsigned char* const from = shared + stage * kStage;
    SliceA::fetch(a_now[into], from, a_place, step);
    SliceB::fetch(b_now[into], from + SliceA::kBytes, b_place, step);
  };

  float sums[WM / 16][WN / 8][4] = {};
  const int slices = (k + kDepth - 1) / kDepth;
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    copy(stage, stage);
    __pipeline_commit();
  }
  __pipeline_wait_prior(STAGES - 2);
  __syncthreads();
  fetch(0, 0, 0);
  int stage = 0, freed = STAGES - 1;
  for (int slice = 0; slice < slices; ++slice) {
    const int next = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step < kSteps - 1) {
        fetch(stage, step + 1, (step + 1) % 2);
      } else {  // the next slice's first fragments come under this one's last products
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        fetch(next, 0, 0);
      }
      if (step == 0) {
        copy(slice + STAGES - 1, freed);
        __pipeline_commit();
      }
      round_to_tf32(a_now[step % 2]);
      round_to_tf32(b_now[step % 2]);
      mma::mma_sync_tile<float>(sums, a_now[step % 2], b_now[step % 2]);
    }
    freed = stage;
    stage = next;
  }
  __pipeline_wait_prior(0);  // the zeros after the last slice: no copy outlives its block
  mma::store<float, C_ALIGNED>(sums, c, m, n, first_row + row, first_column + column);
}
