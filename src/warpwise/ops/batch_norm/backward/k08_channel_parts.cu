// Several blocks per channel, of which each adds the partial sums of its channel in the second launch, as k08 of the
// forward.

#include <warpwise/core/channel.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "gradient.cuh"

constexpr int kThreads = warpwise::kChannelThreads, kBatch = 4;  // vectors of a thread whose loads are in flight

// partials: (channels, parts, 2) of sum dy and sum dy h, with h = (x - mean) * rstd. x: (n, channels, inner); dy
// likewise, or null for zeros. Grid: (parts, channels).
template <class T, int VECTOR, bool SHIFTED>
__global__ void __launch_bounds__(kThreads) gradient_sums(const T* dy, const T* x, const float* mean, const float* var,
                                                          float* partials, int n, int channels, int inner, float eps) {
  const long long total = static_cast<long long>(n) * channels * inner;
  const auto read = [&](long long offset) { return read_channel_pair<T, VECTOR, SHIFTED>(dy, x, offset, total); };
  const int channel = blockIdx.y;
  warpwise::VectorBatches<VECTOR, SHIFTED, kBatch, Pair<T, VECTOR>> batches(channel, blockIdx.x, gridDim.x, n, channels,
                                                                            inner);
  warpwise::wait_for_previous_kernel();
  if (dy) batches.load(read);
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  float sum = 0.0f, dot = 0.0f;
  while (dy && batches.more()) {
    batches.use([&](long long, warpwise::Inside inside, const Pair<T, VECTOR>& pair) {
      add_gradient(pair, inside, m, rstd, sum, dot);
    });
    if (batches.more()) batches.load(read);
  }
  warpwise::block_sums(sum, dot);
  if (threadIdx.x > 0) return;
  const long long to = 2 * (static_cast<long long>(channel) * gridDim.x + blockIdx.x);
  *warpwise::packs<8>(partials + to) = warpwise::Pack<float, 8>{{sum, dot}};
}

// dx: (n, channels, inner); dmean, dvar, weight, and the outputs dw and db: (channels) or null.
template <class T, class W, int VECTOR, bool SHIFTED>
__global__ void __launch_bounds__(kThreads) gradient_of_input(const T* dy, const float* dmean, const float* dvar,
                                                              const T* x, const W* weight, const float* mean,
                                                              const float* var, const float* partials, int parts, T* dx,
                                                              W* dw, W* db, int n, int channels, int inner, float eps) {
  const long long total = static_cast<long long>(n) * channels * inner;
  const auto read = [&](long long offset) { return read_channel_pair<T, VECTOR, SHIFTED>(dy, x, offset, total); };
  const int channel = blockIdx.y;
  warpwise::VectorBatches<VECTOR, SHIFTED, kBatch, Pair<T, VECTOR>> batches(channel, blockIdx.x, gridDim.x, n, channels,
                                                                            inner);
  warpwise::wait_for_previous_kernel();
  batches.load(read);
  float sum, dot;
  warpwise::add_channel_parts(partials, parts, sum, dot);
  if (blockIdx.x == 0 && threadIdx.x == 0) store_sums(static_cast<float*>(nullptr), dw, db, channel, sum, dot);
  const float count = static_cast<float>(n) * static_cast<float>(inner);
  const auto line = Line::of(channel, count, dmean, dvar, weight, mean, var, sum, dot, eps);
  while (batches.more()) {
    batches.use([&](long long offset, warpwise::Inside inside, const Pair<T, VECTOR>& pair) {
      store_gradient<VECTOR, SHIFTED>(dx, offset, inside, pair, line);
    });
    if (batches.more()) batches.load(read);
  }
}
