// A tile of C for each warp inside the block's: lanes read few distinct words of shared memory, and no bank twice.
//
// Quads of 4 x 4 are dealt to 4 x 8 lanes, 16 x 32 elements a deal. In k08 neighbouring lanes read 32 bytes apart, so
// that eight of them met in half of the banks; here eight lanes read the 128 bytes of all 32 banks, and of A one quad
// serves eight lanes. Slices are twice as deep: half the barriers.

#include <warpwise/core/float4.cuh>

// Elements of one deal of a warp: each lane has 4 x 4 of them.
constexpr int kDealM = 16, kDealN = 32;

constexpr int threads_of(int bm, int bn, int wm, int wn) { return (bm / wm) * (bn / wn) * 32; }

// a: (m, k), b: (k, n), c: (m, n), row-major. ALIGNED: k and n are multiples of 4 and a, b, c lie on 4 elements.
// BM x BN: the block's tile of C; BK: the depth of a slice; WM x WN: a warp's tile, WM * WN / 32 sums a thread.
// Grid: (cdiv(n, BN), cdiv(m, BM)) blocks of THREADS.
template <class T, int BM, int BN, int BK, int WM, int WN, bool ALIGNED, int THREADS = threads_of(BM, BN, WM, WN)>
__global__ void __launch_bounds__(THREADS, 2) matmul_warp_tile(const T* __restrict__ a, const T* __restrict__ b,
                                                               T* __restrict__ c, int m, int n, int k) {
  constexpr int kALoads = BM * BK / 4 / THREADS, kBLoads = BK * BN / 4 / THREADS;
  constexpr int kDealsM = WM / kDealM, kDealsN = WN / kDealN;
  static_assert(WM % kDealM == 0 && WN % kDealN == 0 && BM % WM == 0 && BN % WN == 0, "tiles are whole deals");
  static_assert(kALoads * THREADS * 4 == BM * BK && kBLoads * THREADS * 4 == BK * BN, "threads share loads evenly");

  // One quad more a row: A's transposing stores go to rows 4 apart, in the same banks without it; now two of them meet.
  __shared__ warpwise::Float4 a_tile[BK][BM / 4 + 1];
  __shared__ warpwise::Float4 b_tile[BK][BN / 4];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int first_row = blockIdx.y * BM, first_column = blockIdx.x * BN;
  const int row = warp / (BN / WN) * WM + lane / (kDealN / 4) * 4;  // of this lane's first quad, in the tile
  const int column = warp % (BN / WN) * WN + lane % (kDealN / 4) * 4;

  float sums[kDealsM][kDealsN][4][4] = {};
  for (int first = 0; first < k; first += BK) {
#pragma unroll
    for (int load = 0; load < kALoads; ++load) {
      const int i = load * THREADS + thread, a_row = i / (BK / 4), a_column = i % (BK / 4) * 4;
      const T* from = a + static_cast<long long>(first_row + a_row) * k + first + a_column;
      const auto values = warpwise::load4<ALIGNED>(from, first_row + a_row < m ? k - first - a_column : 0);
#pragma unroll
      for (int e = 0; e < 4; ++e) a_tile[a_column + e][a_row / 4].at[a_row % 4] = values.at[e];
    }
#pragma unroll
    for (int load = 0; load < kBLoads; ++load) {
      const int i = load * THREADS + thread, b_row = i / (BN / 4), b_column = i % (BN / 4) * 4;
      const T* from = b + static_cast<long long>(first + b_row) * n + first_column + b_column;
      b_tile[b_row][b_column / 4] = warpwise::load4<ALIGNED>(from, first + b_row < k ? n - first_column - b_column : 0);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BK; ++i) {
      warpwise::Float4 a_quads[kDealsM], b_quads[kDealsN];
#pragma unroll
      for (int p = 0; p < kDealsM; ++p) a_quads[p] = a_tile[i][(row + p * kDealM) / 4];
#pragma unroll
      for (int q = 0; q < kDealsN; ++q) b_quads[q] = b_tile[i][(column + q * kDealN) / 4];
#pragma unroll
      for (int p = 0; p < kDealsM; ++p) {
#pragma unroll
        for (int q = 0; q < kDealsN; ++q) {
#pragma unroll
          for (int element = 0; element < 16; ++element) {
            sums[p][q][element / 4][element % 4] += a_quads[p].at[element / 4] * b_quads[q].at[element % 4];
          }
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int p = 0; p < kDealsM; ++p) {
#pragma unroll
    for (int q = 0; q < kDealsN; ++q) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const long long c_row = first_row + row + p * kDealM + r;
        const int c_column = first_column + column + q * kDealN;
        warpwise::store4<ALIGNED>(c + c_row * n + c_column, sums[p][q][r], c_row < m ? n - c_column : 0);
      }
    }
  }
}
