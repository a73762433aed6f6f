// Statistics of a batch that is divided between processes: what each sends, and what it makes of the average.
//
// Moments are averaged about 0, in float64, because the processes have other origins and other means.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

#include "one_channel.cuh"

constexpr int kThreads = 256;

struct DoubleSum {
  using Value = double;
  static __device__ Value identity() { return 0.0; }
  static __device__ Value combine(Value a, Value b) { return a + b; }
  static __device__ Value exchange(Value value, int distance) {
    return __shfl_xor_sync(warpwise::kFullMask, value, distance);
  }
};

// raw: (54) = the means over 1 / `inverse` pixels of p_s and of p_s p_t, s <= t, of one_channel.cuh, from the parts of
// input_moments: (parts, kPart). One block.
__global__ void __launch_bounds__(kThreads) raw_moments(const float* sums, double* raw, int parts, double inverse) {
  using namespace one_channel;
  warpwise::wait_for_previous_kernel();
  __shared__ Moments moments;
  combine_moments(moments, sums, parts, inverse);
  const double origin = sums[kSums];
  if (threadIdx.x >= kTaps * kTaps) return;
  const int s = threadIdx.x / kTaps, t = threadIdx.x % kTaps;
  const double mean_s = moments.mean[s] + origin, mean_t = moments.mean[t] + origin;
  if (t == 0) raw[s] = mean_s;
  if (s <= t) raw[product(s, t)] = moments.covariance[s][t] + mean_s * mean_t;
}

// part: (kPart), the sums of one pixel with the averages `raw` of all processes, relative to the origin of `sums`.
__global__ void __launch_bounds__(64) part_of_moments(const double* raw, const float* sums, float* part) {
  using namespace one_channel;
  warpwise::wait_for_previous_kernel();
  const int i = threadIdx.x;
  if (i >= kPart) return;
  const double origin = sums[kSums];
  double value = i == kSums ? origin : 0.0;
  if (i < kTaps) value = raw[i] - origin;
  for (int s = 0; s < kTaps; ++s) {
    for (int t = s; t < kTaps; ++t) {
      if (i == product(s, t)) value = raw[i] - origin * (raw[s] + raw[t] - origin);
    }
  }
  part[i] = static_cast<float>(value);
}

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
