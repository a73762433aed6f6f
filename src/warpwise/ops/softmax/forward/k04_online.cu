// Online softmax: maximum and sum in one pass as one value, so a row is read twice instead of three times.
//
// When x raises the running maximum from m to m', the running sum s becomes s * e^(m - m') + e^(x - m'); two threads'
// (m, s) join by the same rule, which is associative (MaxAndSum in reduce.cuh), so one block reduction serves for two.
// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;

using Statistics = warpwise::MaxAndSum::Value;

// x, y: (rows, columns), contiguous. Grid: rows blocks of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) softmax_online(const T* x, T* y, int columns) {
  __shared__ Statistics of_warp[warpwise::kWarp];
  x += static_cast<long long>(blockIdx.x) * columns;
  y += static_cast<long long>(blockIdx.x) * columns;

  Statistics row = warpwise::MaxAndSum::identity();
  for (int c = threadIdx.x; c < columns; c += kThreads) {
    row = warpwise::MaxAndSum::with(row, warpwise::to_float(x[c]));
  }
  row = warpwise::block_reduce<warpwise::MaxAndSum, kThreads>(row, of_warp);

  for (int c = threadIdx.x; c < columns; c += kThreads) {
    y[c] = warpwise::from_float<T>(expf(warpwise::to_float(x[c]) - row.max) / row.sum);
  }
}
