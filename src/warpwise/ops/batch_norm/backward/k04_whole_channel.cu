// A block per channel in one launch, with up to 1024 threads and 16-byte accesses, as the forward's k05: the values of
// a channel of one batch of loads stay in registers.

#include <warpwise/core/channel.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "gradient.cuh"

constexpr int kBatch = 4;  // vectors of a thread whose loads are in flight

// x, dx: (n, channels, inner); dy likewise, or null for zeros; dmean, dvar, weight, dw, db: (channels) or null. Grid:
// channels blocks.
template <class T, class W, int VECTOR, bool SHIFTED, int THREADS>
__global__ void __launch_bounds__(THREADS) gradient_of_channel(const T* dy, const float* dmean, const float* dvar,
                                                               const T* x, const W* weight, const float* mean,
                                                               const float* var, T* dx, W* dw, W* db, int n,
                                                               int channels, int inner, float eps) {
  const long long total = static_cast<long long>(n) * channels * inner;
  const auto read = [&](long long offset) { return read_channel_pair<T, VECTOR, SHIFTED>(dy, x, offset, total); };
  const int channel = blockIdx.x;
  warpwise::VectorBatches<VECTOR, SHIFTED, kBatch, Pair<T, VECTOR>, THREADS> batches(channel, 0, 1, n, channels, inner);
  const bool several = batches.count > kBatch * THREADS;
  warpwise::wait_for_previous_kernel();
  batches.load(read);
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  float sum = 0.0f, dot = 0.0f;
  while (dy && batches.more()) {
    batches.visit([&](long long, warpwise::Inside inside, const Pair<T, VECTOR>& pair) {
      add_gradient(pair, inside, m, rstd, sum, dot);
    });
    if (!several) break;
    batches.next();
    if (batches.more()) batches.load(read);
  }
  warpwise::block_sums<THREADS>(sum, dot);
  if (threadIdx.x == 0) store_sums(static_cast<float*>(nullptr), dw, db, channel, sum, dot);
  const float count = static_cast<float>(n) * static_cast<float>(inner);
  const auto line = Line::of(channel, count, dmean, dvar, weight, mean, var, sum, dot, eps);
  if (several) {
    batches.begin(threadIdx.x, channel);
    batches.load(read);
  } else {
    batches.first = threadIdx.x;
  }
  while (batches.more()) {
    batches.use([&](long long offset, warpwise::Inside inside, const Pair<T, VECTOR>& pair) {
      store_gradient<VECTOR, SHIFTED>(dx, offset, inside, pair, line);
    });
    if (batches.more()) batches.load(read);
  }
}
