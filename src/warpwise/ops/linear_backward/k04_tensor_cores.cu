// Both products on tensor cores, three TF32 products for each float32 product; blocks of dw divide the rows.
//
// k03 reaches half of the peak rate of the FP32 units, and a block of dw adds all rows of a batch. With three TF32
// products for each float32 product, tensor cores have twice the peak rate of the FP32 units. For each tile of dw,
// several blocks divide the rows; the last of them adds their parts in order, while other blocks still compute dx. db
// is the sum of the fragments of dy and needs no loads.

#include <warpwise/core/float4.cuh>
#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/sm80/gemm_3xtf32.cuh>

namespace gemm = warpwise::gemm;

constexpr int kTileK = 32, kStages = 3;

// dy and, if MASKED, relu_output: (m, n); x: (m, k), w: (n, k); dx: (m, k) = dy w, or null; dw: (n, k) = dy^T x; db:
// (n). N_WORD, K_WORD: bytes of a copy along n and along k, 16 if they are multiples of 4 and the tensors are aligned.
// Tiles of ROWS x COLUMNS, warp tiles of 32 x COLUMNS / 2.
// Grid: tiles of dw times `splits` of `share` rows, then tiles of dx. partials: (splits, n k), row_parts: (splits, n)
// and semaphores: a zero for each tile of dw, or null for one split. Dynamic shared memory: the stages.
template <int ROWS, int COLUMNS, int N_WORD, int K_WORD, bool MASKED>
__global__ void __launch_bounds__(2 * ROWS, 128 / ROWS) linear_backward(const float* dy, const float* relu_output,
                                                                        const float* x, const float* w, float* dx,
                                                                        float* dw, float* db, float* partials,
                                                                        float* row_parts, int* semaphores, int m, int n,
                                                                        int k, int splits, int share) {
  constexpr int kThreads = 2 * ROWS;
  warpwise::wait_for_previous_kernel();
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr bool kAligned = K_WORD == 16;
  const int tiles_n = (n + ROWS - 1) / ROWS, tiles_k = (k + COLUMNS - 1) / COLUMNS, tiles = tiles_n * tiles_k;
  int block = blockIdx.x;
  if (block >= tiles * splits) {
    using OfInput =
        gemm::ThreeTf32MainLoop<ROWS, COLUMNS, kTileK, 32, COLUMNS / 2, kStages, true, false, N_WORD, K_WORD, MASKED>;
    static_assert(OfInput::kThreads == kThreads, "both products have the same block");
    block -= tiles * splits;
    const int row = block / tiles_k * ROWS, column = block % tiles_k * COLUMNS;
    OfInput loop;
    loop.run(shared, dy, n, w, k, row, column, m, k, 0, n, relu_output);
    warpwise::mma::store<float, kAligned>(loop.sums, dx, m, k, row + loop.row, column + loop.column);
    return;
  }
  using OfWeight =
      gemm::ThreeTf32MainLoop<ROWS, COLUMNS, kTileK, 32, COLUMNS / 2, kStages, false, false, N_WORD, K_WORD, MASKED>;
  const int tile = block % tiles, split = block / tiles, begin = split * share, end = min(m, begin + share);
  const int row = tile / tiles_k * ROWS, column = tile % tiles_k * COLUMNS;
  const long long size = static_cast<long long>(n) * k;
  OfWeight loop;
  loop.run(shared, dy, n, x, k, row, column, n, k, begin, end, relu_output);
  warpwise::mma::store<float, kAligned>(loop.sums, partials ? partials + split * size : dw, n, k, row + loop.row,
                                        column + loop.column);
#pragma unroll
  for (int i = 0; i < 2 * OfWeight::kI; ++i) {
    const float sum = warpwise::warp_reduce<warpwise::Sum, 4>(loop.row_sums[i]);
    const int r = row + loop.row_of(i);
    if (column + loop.column == 0 && threadIdx.x % 4 == 0 && r < n) (partials ? row_parts + split * n : db)[r] = sum;
  }
  if (!partials || !warpwise::is_last_block(semaphores + tile, splits)) return;
  constexpr int kEach = ROWS * COLUMNS / 4 / kThreads;  // all loads of a split are in flight at once
  const int first = row + static_cast<int>(threadIdx.x) / (COLUMNS / 4), c = column + threadIdx.x % (COLUMNS / 4) * 4;
  warpwise::Float4 total[kEach] = {};
  for (int part = 0; part < splits; ++part) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int r = first + i * (kThreads / (COLUMNS / 4));
      const long long at = part * size + static_cast<long long>(r) * k + c;
      const auto values = warpwise::load4<kAligned>(partials + at, r < n ? k - c : 0);
#pragma unroll
      for (int e = 0; e < 4; ++e) total[i].at[e] += values.at[e];
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int r = first + i * (kThreads / (COLUMNS / 4));
    if (r < n && c < k) warpwise::store4<kAligned>(dw + static_cast<long long>(r) * k + c, total[i].at, k - c);
  }
  if (column > 0 || threadIdx.x >= ROWS || row + static_cast<int>(threadIdx.x) >= n) return;
  float sum = 0.0f;
  for (int part = 0; part < splits; ++part) sum += row_parts[part * n + row + threadIdx.x];
  db[row + threadIdx.x] = sum;
}
