// Warp tiles within the block tile: a warp loads few distinct words of shared memory, without bank conflicts.
//
// A warp tile consists of 16 x 32 subtiles, in which each of 4 x 8 lanes computes 4 x 4 elements. In k07 adjacent
// lanes read 32 bytes apart, so eight of them used half of the banks; here eight lanes read 128 consecutive bytes, one
// word per bank, and eight lanes share each 16 bytes of A. K-tiles are twice as long, which halves the barriers.

#include <warpwise/core/float4.cuh>

// Elements of a subtile of a warp: 4 x 4 per lane.
constexpr int kSubtileM = 16, kSubtileN = 32;

// a: (m, k), b: (k, n), c: (m, n), row-major. ALIGNED: k and n are multiples of 4, and a, b, c are aligned to 4
// elements. BM x BN: block tile of C; BK: k-tile; WM x WN: warp tile, WM * WN / 32 sums per thread. Grid: (cdiv(n,
// BN), cdiv(m, BM)) blocks of THREADS.
template <class T, int BM, int BN, int BK, int WM, int WN, bool ALIGNED, int THREADS = (BM / WM) * (BN / WN) * 32>
__global__ void __launch_bounds__(THREADS, 2) matmul_warp_tile(const T* __restrict__ a, const T* __restrict__ b,
                                                               T* __restrict__ c, int m, int n, int k) {
  constexpr int kALoads = BM * BK / 4 / THREADS, kBLoads = BK * BN / 4 / THREADS;
  constexpr int kSubtilesM = WM / kSubtileM, kSubtilesN = WN / kSubtileN;
  static_assert(WM % kSubtileM == 0 && WN % kSubtileN == 0 && BM % WM == 0 && BN % WN == 0, "tiles are whole subtiles");
  static_assert(kALoads * THREADS * 4 == BM * BK && kBLoads * THREADS * 4 == BK * BN,
                "every thread executes the same number of loads");

  // Four elements of padding per row: the transposing stores of A access rows 4 apart, which share a bank without
  // padding; with it the conflicts are two-way.
  __shared__ warpwise::Float4 a_tile[BK][BM / 4 + 1];
  __shared__ warpwise::Float4 b_tile[BK][BN / 4];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int first_row = blockIdx.y * BM, first_column = blockIdx.x * BN;
  const int row = warp / (BN / WN) * WM +
                  lane / (kSubtileN / 4) * 4;  // of this lane's first 4 x 4 elements, relative to the block tile
  const int column = warp % (BN / WN) * WN + lane % (kSubtileN / 4) * 4;

  float sums[kSubtilesM][kSubtilesN][4][4] = {};
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
      warpwise::Float4 a_fragment[kSubtilesM], b_fragment[kSubtilesN];
#pragma unroll
      for (int p = 0; p < kSubtilesM; ++p) a_fragment[p] = a_tile[i][(row + p * kSubtileM) / 4];
#pragma unroll
      for (int q = 0; q < kSubtilesN; ++q) b_fragment[q] = b_tile[i][(column + q * kSubtileN) / 4];
#pragma unroll
      for (int p = 0; p < kSubtilesM; ++p) {
#pragma unroll
        for (int q = 0; q < kSubtilesN; ++q) {
#pragma unroll
          for (int element = 0; element < 16; ++element) {
            sums[p][q][element / 4][element % 4] += a_fragment[p].at[element / 4] * b_fragment[q].at[element % 4];
          }
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int p = 0; p < kSubtilesM; ++p) {
#pragma unroll
    for (int q = 0; q < kSubtilesN; ++q) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const long long c_row = first_row + row + p * kSubtileM + r;
        const int c_column = first_column + column + q * kSubtileN;
        warpwise::store4<ALIGNED>(c + c_row * n + c_column, sums[p][q][r], c_row < m ? n - c_column : 0);
      }
    }
  }
}
