// Statistics of a batch that is divided between processes: the sums that a process contributes to the average over the
// processes, and the mean and variance from this average.
//
// Squares are averaged about 0, in float64, because the means of the processes differ.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;

struct DoubleSum {
  using Value = double;
  static __device__ Value identity() { return 0.0; }
  static __device__ Value combine(Value a, Value b) { return a + b; }
  static __device__ Value exchange(Value value, int distance) {
    return __shfl_xor_sync(warpwise::kFullMask, value, distance);
  }
};

// raw: (2, k) = the mean of each filter and the mean of the squares, from partials: (k, parts, 3) of sums, squared
// deviations from the mean of the part, and numbers of elements. Grid: k blocks.
__global__ void __launch_bounds__(kThreads) raw_statistics(const float* partials, double* raw, int parts) {
  warpwise::wait_for_previous_kernel();
  __shared__ double warp_values[warpwise::kWarp];
  const float* const from = partials + 3ll * blockIdx.x * parts;
  double sum = 0.0, squares = 0.0, count = 0.0;
  for (int p = threadIdx.x; p < parts; p += kThreads) {
    const double total = from[3 * p], size = from[3 * p + 2];
    sum += total;
    squares += from[3 * p + 1] + (size > 0.0 ? total / size * total : 0.0);
    count += size;
  }
  sum = warpwise::block_reduce<DoubleSum, kThreads>(sum, warp_values);
  squares = warpwise::block_reduce<DoubleSum, kThreads>(squares, warp_values);
  count = warpwise::block_reduce<DoubleSum, kThreads>(count, warp_values);
  if (threadIdx.x > 0) return;
  raw[blockIdx.x] = sum / count;
  raw[gridDim.x + blockIdx.x] = squares / count;
}

// mean, var: (k) from the averages `raw` of all processes: (2, k).
__global__ void __launch_bounds__(kThreads) mean_and_variance(const double* raw, float* mean, float* var, int k) {
  warpwise::wait_for_previous_kernel();
  const int filter = blockIdx.x * kThreads + threadIdx.x;
  if (filter >= k) return;
  const double m = raw[filter], spread = raw[k + filter] - m * m;
  mean[filter] = static_cast<float>(m);
  var[filter] = spread < 0.0 ? 0.0f : static_cast<float>(spread);  // NaN is kept
}
