// A block per channel in one launch, with up to 1024 threads and 16-byte accesses: for short channels the gap between
// two launches takes longer than the work, and with many channels the second read is from L1 or L2. The values of a
// channel of one batch of loads stay in registers.

#include <warpwise/core/previous_kernel.cuh>

#include "normalise.cuh"

constexpr int kBatch = 4;  // vectors of a thread whose loads are in flight

// x, y: (n, channels, inner); mean, var: (channels); weight, bias: (channels) or null. Grid: channels blocks.
template <class T, class W, int VECTOR, bool SHIFTED, int THREADS>
__global__ void __launch_bounds__(THREADS) normalise_channel(const T* x, const W* weight, const W* bias, T* y,
                                                             float* mean, float* var, int n, int channels, int inner,
                                                             float eps) {
  using Vector = VectorOf<T, VECTOR>;
  const long long total = static_cast<long long>(n) * channels * inner;
  const auto read = [&](long long offset) { return warpwise::read_words<VECTOR, SHIFTED>(x, offset, total); };
  const int channel = blockIdx.x;
  warpwise::VectorBatches<VECTOR, SHIFTED, kBatch, Vector, THREADS> batches(channel, 0, 1, n, channels, inner);
  const bool several = batches.count > kBatch * THREADS;
  warpwise::wait_for_previous_kernel();
  batches.load(read);
  const float origin = n > 0 ? warpwise::to_float(x[static_cast<long long>(channel) * inner]) : 0.0f;
  float sum = 0.0f, squares = 0.0f;
  while (batches.more()) {
    batches.visit([&](long long, warpwise::Inside inside, const Vector& values) {
      add_shifted<T, VECTOR>(values, inside, origin, sum, squares);
    });
    if (!several) break;
    batches.next();
    if (batches.more()) batches.load(read);
  }
  warpwise::block_sums<THREADS>(sum, squares);
  const float count = static_cast<float>(n) * static_cast<float>(inner), distance = sum / count;
  const float m = origin + distance, spread = squares / count - distance * distance;
  const float v = spread < 0.0f ? 0.0f : spread;  // NaN is kept
  if (threadIdx.x == 0) {
    mean[channel] = m;
    var[channel] = v;
  }
  const float shift = bias ? warpwise::to_float(bias[channel]) : 0.0f;
  const float scale = rsqrtf(v + eps) * (weight ? warpwise::to_float(weight[channel]) : 1.0f);
  if (several) {
    batches.begin(threadIdx.x, channel);
    batches.load(read);
  } else {
    batches.first = threadIdx.x;
  }
  while (batches.more()) {
    batches.use([&](long long offset, warpwise::Inside inside, const Vector& values) {
      store_normalised<VECTOR, SHIFTED>(y, offset, inside, values, m, scale, shift);
    });
    if (batches.more()) batches.load(read);
  }
}
