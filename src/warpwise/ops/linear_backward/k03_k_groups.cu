// 8 x 8 sums per lane halve the reads of shared memory per FMA; the warps of a block divide k instead.
//
// With k02's 4 x 4 sums a lane reads two vectors for 16 FMAs, and the reads of shared memory take twice as long as the
// FMAs. A warp of 8 x 8 sums covers a whole tile, so the four warps of a block multiply a quarter of k each, and their
// sums are added at the end. A chunk of k is loaded at once. dy passes through registers, where the derivative of relu
// is applied: the gradient before the activation is not a tensor of its own.

#include <cuda_pipeline.h>
#include <warpwise/core/float4.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

using warpwise::Float4;

constexpr int kRows = 32, kColumns = 64, kChunk = 128;  // a tile of the result, and the k of a chunk
constexpr int kThreads = 128, kWarps = kThreads / warpwise::kWarp;
constexpr int kFloatsA = kChunk * kRows;

// The offset of the vector of rows `row` to row + 3 of A, in [k][row]. The swizzle maps the words that 32 lanes store,
// of four rows and every fourth of 32 k, to distinct banks.
__device__ inline int swizzled(int k, int row) { return k * kRows + (row / 4 ^ k / 4 % 8) * 4; }

// dy: (m, n); if MASKED, 0 unless relu_output: (m, n) is positive.
template <bool MASKED>
struct Gradient {
  const float *dy, *relu_output;
  int m, n;

  struct Loaded {
    Float4 values, outputs;
    bool inside;
  };

  // Elements (row, column) to column + 3; past an edge 0. VECTOR: n is a multiple of 4 and both are aligned; the loads
  // are then unconditional, so that those of a thread are in flight at once.
  template <bool VECTOR>
  __device__ Loaded load(int row, int column) const {
    const bool inside = row < m && column < n;
    const long long at = inside ? static_cast<long long>(row) * n + column : 0;
    const int valid = VECTOR ? 4 : inside ? n - column : 0;
    Loaded loaded = {warpwise::load4<VECTOR>(dy + at, valid), {}, inside};
    if (MASKED) loaded.outputs = warpwise::load4<VECTOR>(relu_output + at, valid);
    return loaded;
  }
  __device__ float masked(float value, float output) const { return !MASKED || output > 0.0f ? value : 0.0f; }
  __device__ Float4 masked(const Loaded& loaded) const {
    Float4 result;
#pragma unroll
    for (int e = 0; e < 4; ++e) result.at[e] = loaded.inside ? masked(loaded.values.at[e], loaded.outputs.at[e]) : 0.0f;
    return result;
  }
};

// Loads a chunk of A to shared memory as [k][row], from dy: (k, row) if TRANSPOSED, else (row, k).
template <bool TRANSPOSED, bool VECTOR, bool MASKED>
__device__ void load_a(float* to, const Gradient<MASKED>& dy, int first_row, int first_k) {
  constexpr int kVectors = kChunk * kRows / 4 / kThreads;
  typename Gradient<MASKED>::Loaded loaded[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = threadIdx.x + i * kThreads;
    const int k = first_k + (TRANSPOSED ? at / (kRows / 4) : at % (kChunk / 4) * 4);
    const int row = first_row + (TRANSPOSED ? at % (kRows / 4) * 4 : at / (kChunk / 4));
    loaded[i] = TRANSPOSED ? dy.template load<VECTOR>(k, row) : dy.template load<VECTOR>(row, k);
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = threadIdx.x + i * kThreads;
    const Float4 values = dy.masked(loaded[i]);
    if (TRANSPOSED) {
      *reinterpret_cast<Float4*>(to + swizzled(at / (kRows / 4), at % (kRows / 4) * 4)) = values;
    } else {
      const int k = at % (kChunk / 4) * 4, row = at / (kChunk / 4);
#pragma unroll
      for (int e = 0; e < 4; ++e) to[swizzled(k + e, row) + row % 4] = values.at[e];
    }
  }
}

// Copies a chunk of B (k, n) to shared memory as [k][column]; past an edge zeros.
template <bool VECTOR>
__device__ void copy_b(float* to, const float* b, int first_k, int k_end, int first_column, int n) {
  constexpr int kUnit = VECTOR ? 4 : 1, kPerRow = kColumns / kUnit, kStep = kThreads / kPerRow;
  const int own_k = threadIdx.x / kPerRow, column = threadIdx.x % kPerRow * kUnit;
  const int k = first_column + column < n ? k_end - first_k - own_k : 0;  // the number that exist for this thread
  const float* from = b + static_cast<long long>(first_k + own_k) * n + first_column + column;
  to += own_k * kColumns + column;
#pragma unroll 16
  for (int i = 0; i < kChunk; i += kStep, from += static_cast<long long>(kStep) * n)
    __pipeline_memcpy_async(to + i * kColumns, i < k ? from : b, 4 * kUnit, i < k ? 0 : 4 * kUnit);
  __pipeline_commit();
}

// A tile of c (m, n) = a (m, k) b (k, n), a = dy or, if TRANSPOSED, its transpose.
template <bool TRANSPOSED, bool VECTOR_A, bool VECTOR_B, bool MASKED>
__device__ void product(float* shared, const Gradient<MASKED>& dy, const float* b, float* c, int m, int n, int k,
                        int tile) {
  const int tiles_m = (m + kRows - 1) / kRows;
  const int first_row = tile % tiles_m * kRows, first_column = tile / tiles_m * kColumns;
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  const int own_row = lane / 8 * 4, own_column = lane % 8 * 4;  // and those 16 rows and 32 columns further
  float* const shared_b = shared + kFloatsA;
  float sums[8][8] = {};
  for (int begin = 0; begin < k; begin += kChunk) {
    __syncthreads();  // the reads of the previous chunk are complete
    copy_b<VECTOR_B>(shared_b, b, begin, k, first_column, n);
    load_a<TRANSPOSED, VECTOR_A>(shared, dy, first_row, begin);
    __pipeline_wait_prior(0);
    __syncthreads();
    const int count = min(kChunk, k - begin);
    for (int at = warp * 4; at < count; at += kWarps * 4) {  // four k of one swizzle, zeros past the end
      const float* const rows[2] = {shared + swizzled(at, own_row), shared + swizzled(at, own_row + 16)};
      const float* const columns = shared_b + at * kColumns + own_column;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        Float4 x[2], y[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          x[half] = *reinterpret_cast<const Float4*>(rows[half] + e * kRows);
          y[half] = *reinterpret_cast<const Float4*>(columns + e * kColumns + half * 32);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int j = 0; j < 8; ++j) sums[i][j] += x[i / 4].at[i % 4] * y[j / 4].at[j % 4];
        }
      }
    }
  }
  __syncthreads();  // the sums of the warps reuse the chunk's memory, as [warp][row][column]
  float* const of_warp = shared + warp * kRows * kColumns;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      float* const to = of_warp + (own_row + i / 4 * 16 + i % 4) * kColumns + own_column + j * 8;
      warpwise::store4<true>(to, &sums[i][j], 4);
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kRows * kColumns / 4 / kThreads; ++i) {
    const int at = (threadIdx.x + i * kThreads) * 4, row = at / kColumns, column = first_column + at % kColumns;
    float total[4] = {};
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      const Float4 value = *reinterpret_cast<const Float4*>(shared + other * kRows * kColumns + at);
#pragma unroll
      for (int e = 0; e < 4; ++e) total[e] += value.at[e];
    }
    if (first_row + row < m && column < n)
      warpwise::store4<VECTOR_B>(c + static_cast<long long>(first_row + row) * n + column, total, n - column);
  }
}

// db of 32 columns: a warp adds every fourth row, then the sums of the warps are added in order.
template <bool MASKED>
__device__ void column_sums(float* warp_sums, const Gradient<MASKED>& dy, float* db, int first) {
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp, column = first + lane;
  constexpr int kLoads = 16;
  const int from = min(column, dy.n - 1);
  float sum = 0.0f;
  for (int begin = warp; begin < dy.m; begin += kLoads * kWarps) {
    float values[kLoads], outputs[kLoads];  // rows past the end are clamped to the last one
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const long long row = min(begin + i * kWarps, dy.m - 1);
      values[i] = dy.dy[row * dy.n + from];
      outputs[i] = MASKED ? dy.relu_output[row * dy.n + from] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (begin + i * kWarps < dy.m) sum += dy.masked(values[i], outputs[i]);
    }
  }
  warp_sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp > 0 || column >= dy.n) return;
#pragma unroll
  for (int other = 1; other < kWarps; ++other) sum += warp_sums[other * warpwise::kWarp + lane];
  db[column] = sum;
}

// dy and, if MASKED, relu_output: (m, n); x: (m, k), w: (n, k); dx: (m, k) = dy w, or null; dw: (n, k) = dy^T x;
// db: (n). VECTOR_N, VECTOR_K: n and k are multiples of 4 and the tensors aligned to 16 bytes. Grid: weight_tiles, then
// input_tiles, then cdiv(n, 32) blocks. Dynamic shared memory: a chunk of both operands.
template <bool VECTOR_N, bool VECTOR_K, bool MASKED>
__global__ void __launch_bounds__(kThreads) linear_backward(const float* dy, const float* relu_output, const float* x,
                                                            const float* w, float* dx, float* dw, float* db, int m,
                                                            int n, int k, int weight_tiles, int input_tiles) {
  warpwise::wait_for_previous_kernel();
  extern __shared__ __align__(16) float shared[];
  static_assert(kWarps * kRows * kColumns <= kFloatsA + kChunk * kColumns, "the sums fit into the chunk's memory");
  const Gradient<MASKED> gradient = {dy, relu_output, m, n};
  const int block = blockIdx.x;
  if (block < weight_tiles)
    product<true, VECTOR_N, VECTOR_K>(shared, gradient, x, dw, n, k, m, block);
  else if (block < weight_tiles + input_tiles)
    product<false, VECTOR_N, VECTOR_K>(shared, gradient, w, dx, m, k, n, block - weight_tiles);
  else
    column_sums(shared, gradient, db, (block - weight_tiles - input_tiles) * warpwise::kWarp);
}
