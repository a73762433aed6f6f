// Backward, one block a row: coalesced loads, and sum(dy * y) by warp shuffles with two barriers.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;

// dy, y, dx: (rows, columns), contiguous. Grid: rows blocks of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) softmax_backward_warp_shuffle(const T* dy, const T* y, T* dx, int columns) {
  __shared__ float of_warp[warpwise::kWarp];
  const long long start = static_cast<long long>(blockIdx.x) * columns;
  dy += start;
  y += start;
  dx += start;

  float dot = 0.0f;
  for (int c = threadIdx.x; c < columns; c += kThreads) dot += warpwise::to_float(dy[c]) * warpwise::to_float(y[c]);
  dot = warpwise::block_reduce<warpwise::Sum, kThreads>(dot, of_warp);

  for (int c = threadIdx.x; c < columns; c += kThreads) {
    dx[c] = warpwise::from_float<T>(warpwise::to_float(y[c]) * (warpwise::to_float(dy[c]) - dot));
  }
}
