// For few long rows: several blocks share a row. One launch writes the sum of dy * y of each part of a row, and a
// second one adds these sums in order and computes the result, so all SMs read even if there are fewer rows than SMs.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/row_tile.cuh>

constexpr int kThreads = 256;

// dy, y: (rows, columns), contiguous; partial: (rows, parts). Grid: (parts, rows) blocks of kThreads. A part has
// `share` columns, a multiple of Tile::kColumnsPerStep.
template <class T, bool ALIGNED>
__global__ void __launch_bounds__(kThreads) softmax_backward_parts(const T* dy, const T* y, float* partial, int columns,
                                                                   int share) {
  using Tile = warpwise::RowTile<T, kThreads, ALIGNED>;
  __shared__ float warp_values[warpwise::kWarp];
  const T zero = warpwise::from_float<T>(0.0f);
  const int first = static_cast<int>(blockIdx.x) * share, count = min(share, columns - first);
  const long long start = static_cast<long long>(blockIdx.y) * columns + first;
  warpwise::wait_for_previous_kernel();
  float dot = 0.0f;
#pragma unroll 4
  for (int step = 0; step < warpwise::cdiv(count, Tile::kColumnsPerStep); ++step) {
    const auto gradient = Tile::load(dy + start, count, step, zero);
    const auto probability = Tile::load(y + start, count, step, zero);
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      dot += warpwise::to_float(gradient.at[e]) * warpwise::to_float(probability.at[e]);
    }
  }
  dot = warpwise::block_reduce<warpwise::Sum, kThreads>(dot, warp_values);
  if (threadIdx.x == 0) partial[static_cast<long long>(blockIdx.y) * gridDim.x + blockIdx.x] = dot;
}

// dx: (rows, columns). The same grid, blocks and share.
template <class T, bool ALIGNED>
__global__ void __launch_bounds__(kThreads) softmax_backward_from_parts(const T* dy, const T* y, const float* partial,
                                                                        T* dx, int columns, int share) {
  using Tile = warpwise::RowTile<T, kThreads, ALIGNED>;
  __shared__ float warp_values[warpwise::kWarp];
  const T zero = warpwise::from_float<T>(0.0f);
  const int first = static_cast<int>(blockIdx.x) * share, count = min(share, columns - first);
  const long long start = static_cast<long long>(blockIdx.y) * columns + first;
  warpwise::wait_for_previous_kernel();
  float dot = 0.0f;
  for (int part = threadIdx.x; part < gridDim.x; part += kThreads) {
    dot += partial[static_cast<long long>(blockIdx.y) * gridDim.x + part];
  }
  dot = warpwise::block_reduce<warpwise::Sum, kThreads>(dot, warp_values);
#pragma unroll 4
  for (int step = 0; step < warpwise::cdiv(count, Tile::kColumnsPerStep); ++step) {
    const auto gradient = Tile::load(dy + start, count, step, zero);
    const auto probability = Tile::load(y + start, count, step, zero);
    warpwise::Pack<T> result;
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      const float difference = warpwise::to_float(gradient.at[e]) - dot;
      result.at[e] = warpwise::from_float<T>(warpwise::to_float(probability.at[e]) * difference);
    }
    Tile::store(dx + start, count, step, result);
  }
}
