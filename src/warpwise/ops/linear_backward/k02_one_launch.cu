// Tiles of both products and sums of columns in one launch: none of the three fills the GPU for a small layer.
//
// The products are independent, so they share one launch, which has one tail instead of three. The tiles of dw come
// first, because their sums over the rows of a batch may be longer.

#include <warpwise/core/reduce.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm80/gemm_simt.cuh>
#include <warpwise/sm80/gemm_store.cuh>

namespace gemm = warpwise::gemm;

constexpr int kRows = 32, kColumns = 64, kTileK = 32, kStages = 4, kThreads = 128;
constexpr int kPitch = kColumns + 8;

// A tile of c (m, n) = a (m, k) b (k, n), with leading dimensions a_stride and b_stride.
template <class Loop, bool ALIGNED>
__device__ void product(unsigned char* shared, const float* a, int a_stride, const float* b, int b_stride, float* c,
                        int m, int n, int k, int tile) {
  const int tiles_m = (m + kRows - 1) / kRows;
  const int first_row = tile % tiles_m * kRows, first_column = tile / tiles_m * kColumns;
  Loop loop;
  loop.run(shared, a, a_stride, b, b_stride, first_row, first_column, m, n, 0, k);
  __syncthreads();  // all stages have been read; the sums reuse their memory
  float* const staged = reinterpret_cast<float*>(shared);
  loop.template stage_sums<kPitch>(staged);
  __syncthreads();
  const gemm::Store<float, ALIGNED> store = {c, n};
  constexpr int kVectors = kColumns / 4;
  const int column = static_cast<int>(threadIdx.x) % kVectors * 4, left = n - first_column - column;
  for (int row = threadIdx.x / kVectors; row < kRows; row += kThreads / kVectors) {
    const warpwise::Float4 value = *reinterpret_cast<const warpwise::Float4*>(staged + row * kPitch + column);
    if (first_row + row < m && left > 0) store(value.at, first_row + row, first_column + column, left);
  }
}

// db of 32 columns of dy (m, n): a warp adds every fourth row, then the sums of the warps are added in order.
__device__ void column_sums(float* warp_sums, const float* dy, float* db, int m, int n, int first) {
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp, column = first + lane;
  constexpr int kWarps = kThreads / warpwise::kWarp;
  float sum = 0.0f;
#pragma unroll 8
  for (int row = warp; row < m; row += kWarps) sum += column < n ? dy[static_cast<long long>(row) * n + column] : 0.0f;
  warp_sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp > 0 || column >= n) return;
#pragma unroll
  for (int other = 1; other < kWarps; ++other) sum += warp_sums[other * warpwise::kWarp + lane];
  db[column] = sum;
}

// dy: (m, n), x: (m, k), w: (n, k); dx: (m, k) = dy w, or null; dw: (n, k) = dy^T x; db: (n). N_WORD, K_WORD: bytes of
// a copy along n and along k, 16 if they are multiples of 4 and the tensors are aligned. Grid: weight_tiles, then
// input_tiles, then cdiv(n, 32) blocks. Dynamic shared memory: the stages of the main loop.
template <int N_WORD, int K_WORD>
__global__ void __launch_bounds__(kThreads) linear_backward(const float* dy, const float* x, const float* w, float* dx,
                                                            float* dw, float* db, int m, int n, int k, int weight_tiles,
                                                            int input_tiles) {
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr bool kAligned = K_WORD == 16;
  using OfWeight = gemm::SimtMainLoop<kRows, kColumns, kTileK, 16, 32, kStages, false, false, N_WORD, K_WORD>;
  using OfInput = gemm::SimtMainLoop<kRows, kColumns, kTileK, 16, 32, kStages, true, false, 4, K_WORD>;
  static_assert(OfWeight::kThreads == kThreads && OfInput::kThreads == kThreads, "both products have the same block");
  const int block = blockIdx.x;
  if (block < weight_tiles)
    product<OfWeight, kAligned>(shared, dy, n, x, k, dw, n, k, m, block);
  else if (block < weight_tiles + input_tiles)
    product<OfInput, kAligned>(shared, dy, n, w, k, dx, m, k, n, block - weight_tiles);
  else
    column_sums(reinterpret_cast<float*>(shared), dy, db, m, n, (block - weight_tiles - input_tiles) * warpwise::kWarp);
}
