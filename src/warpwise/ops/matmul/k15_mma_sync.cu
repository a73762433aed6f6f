// Tensor cores as Ampere feeds them: cp.async slices ahead, ldmatrix without bank conflicts, mma.sync.
//
// wmma hides its registers, so k14's tiles wait in shared memory padded and its slices are loaded and multiplied in
// turn. Here a slice is swizzled in 16-byte units, its fragments are fetched one step ahead of the products, and the
// next tile's slices arrive while this tile's sums leave: those go by shuffles into 16-byte stores and need neither
// shared memory nor a barrier. A transposed factor is the same slice with its lines the other way.

#include <warpwise/sm80/mma_tile.cuh>

namespace mma = warpwise::mma;

struct Tile {
  int row, column;  // of its first element
};

// Tiles in groups of `group` rows of tiles, column by column inside: what is in flight shares L2.
template <int BM, int BN>
__device__ inline Tile tile_of(int number, int tiles_m, int tiles_n, int group) {
  const int per_group = group * tiles_n, first = number / per_group * group, place = number % per_group;
  const int in_group = min(group, tiles_m - first);
  return {(first + place % in_group) * BM, place / in_group * BN};
}

constexpr int threads_of(int bm, int bn, int wm, int wn) { return (bm / wm) * (bn / wn) * 32; }

// a: (m, k), b: (k, n), c: (m, n), c row-major. A_ALONG: a's rows are contiguous and lie a_stride elements apart, else
// its columns; B_ALONG: b's columns are contiguous and lie b_stride elements apart, else its rows. A_WORD, B_WORD: the
// bytes that one copy may move: lines lie on them and are whole numbers of them. C_ALIGNED: c's rows lie on 16 bytes.
// BM x BN: the block's tile; WM x WN: a warp's; DEPTH: bytes of k in a slice.
// Grid: blocks that go from tile to tile. Dynamic shared memory: STAGES * (BM + BN) * DEPTH bytes.
template <class T, class Out, int BM, int BN, int WM, int WN, int DEPTH, int STAGES, int BLOCKS, bool A_ALONG,
          bool B_ALONG, int A_WORD, int B_WORD, bool C_ALIGNED, int THREADS = threads_of(BM, BN, WM, WN)>
__global__ void __launch_bounds__(THREADS, BLOCKS) matmul_mma_sync(const T* __restrict__ a, int a_stride,
                                                                   const T* __restrict__ b, int b_stride,
                                                                   Out* __restrict__ c, int m, int n, int k,
                                                                   int tiles_m, int tiles_n, int group) {
  using SliceA = mma::OperandTile<mma::Side::kA, T, BM, DEPTH, A_ALONG>;
  using SliceB = mma::OperandTile<mma::Side::kB, T, BN, DEPTH, B_ALONG>;
  constexpr int kDepth = DEPTH / sizeof(T), kSteps = DEPTH / 32, kStage = SliceA::kBytes + SliceB::kBytes;
  static_assert(WM % 32 == 0 && WN % 32 == 0 && kSteps % 2 == 0, "whole stores; fragments alternate");

  extern __shared__ __align__(1024) unsigned char shared[];
  const int tiles = tiles_m * tiles_n;
  const int warp = threadIdx.x / 32, row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;

  int coming = blockIdx.x, depth = 0;  // the tile and slice to copy next; after the last tile, zeros
  Tile at = tile_of<BM, BN>(coming, tiles_m, tiles_n, group);
  const auto copy = [&](int stage) {
    unsigned char* const to = shared + stage * kStage;
    const bool there = coming < tiles;
    SliceA::template copy<A_WORD, THREADS>(to, a, a_stride, at.row, there ? m : 0, depth, k);
    SliceB::template copy<B_WORD, THREADS>(to + SliceA::kBytes, b, b_stride, at.column, there ? n : 0, depth, k);
    __pipeline_commit();
  };
  const auto advance = [&] {
    depth += kDepth;
    if (depth >= k) {
      depth = 0;
      coming += gridDim.x;
      if (coming < tiles) at = tile_of<BM, BN>(coming, tiles_m, tiles_n, group);
    }
  };

  unsigned a_now[2][WM / 16][4], b_now[2][WN / 16][4];
  const unsigned a_place = SliceA::place(row), b_place = SliceB::place(column);
  const auto fetch = [&](int stage, int step, int into) {
    const unsigned char* const from = shared + stage * kStage;
    SliceA::fetch(a_now[into], from, a_place, step);
    SliceB::fetch(b_now[into], from + SliceA::kBytes, b_place, step);
  };

#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    copy(stage);
    advance();
  }
  __pipeline_wait_prior(STAGES - 2);
  __syncthreads();
  fetch(0, 0, 0);
  int stage = 0, freed = STAGES - 1;
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    typename mma::OperandTraits<T>::Sum sums[WM / 16][WN / 8][4] = {};
    for (int done = 0; done < k; done += kDepth) {
      const int next = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (step == kSteps - 1) {
          __pipeline_wait_prior(STAGES - 2);
          __syncthreads();
          fetch(next, 0, 0);  // the next slice's first fragments come under this one's last products, also across tiles
        } else {
          fetch(stage, step + 1, (step + 1) % 2);
        }
        if (step == 0) copy(freed);
        mma::mma_sync_tile<T>(sums, a_now[step % 2], b_now[step % 2]);
      }
      advance();
      freed = stage;
      stage = next;
    }
    const Tile tile = tile_of<BM, BN>(number, tiles_m, tiles_n, group);
    mma::store<T, C_ALIGNED>(sums, c, m, n, tile.row + row, tile.column + column);
  }
  __pipeline_wait_prior(0);  // the zeros after the last tile: no copy outlives its block
}
