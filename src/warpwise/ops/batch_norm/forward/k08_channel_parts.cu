// Several blocks per channel, of which each adds the partial sums of its channel in the second launch.
//
// In k03 the last block of a channel adds them while other SMs are idle. Here the first elements of a thread are loaded
// while the partial sums are added.

#include <warpwise/core/previous_kernel.cuh>

#include "normalise.cuh"

constexpr int kThreads = warpwise::kChannelThreads, kBatch = 4;  // vectors of a thread whose loads are in flight

// partials: (channels, parts, 2): the sums of x - o and of its square, o the channel's first element. x: (n, channels,
// inner). Grid: (parts, channels).
template <class T, int VECTOR, bool SHIFTED>
__global__ void __launch_bounds__(kThreads) batch_sums(const T* x, float* partials, int n, int channels, int inner) {
  using Vector = VectorOf<T, VECTOR>;
  const long long total = static_cast<long long>(n) * channels * inner;
  const auto read = [&](long long offset) { return warpwise::read_words<VECTOR, SHIFTED>(x, offset, total); };
  const int channel = blockIdx.y;
  warpwise::VectorBatches<VECTOR, SHIFTED, kBatch, Vector> batches(channel, blockIdx.x, gridDim.x, n, channels, inner);
  warpwise::wait_for_previous_kernel();
  batches.load(read);
  const float origin = n > 0 ? warpwise::to_float(x[static_cast<long long>(channel) * inner]) : 0.0f;
  float sum = 0.0f, squares = 0.0f;
  while (batches.more()) {
    batches.use([&](long long, warpwise::Inside inside, const Vector& values) {
      add_shifted<T, VECTOR>(values, inside, origin, sum, squares);
    });
    if (batches.more()) batches.load(read);
  }
  warpwise::block_sums(sum, squares);
  if (threadIdx.x > 0) return;
  const long long to = 2 * (static_cast<long long>(channel) * gridDim.x + blockIdx.x);
  *warpwise::packs<8>(partials + to) = warpwise::Pack<float, 8>{{sum, squares}};
}

// y = (x - mean) / sqrt(var + eps) * weight + bias; weight, bias: (channels) or null. Writes mean, var: (channels).
template <class T, class W, int VECTOR, bool SHIFTED>
__global__ void __launch_bounds__(kThreads) normalise(const T* x, const float* partials, int parts, const W* weight,
                                                      const W* bias, float* mean, float* var, T* y, int n, int channels,
                                                      int inner, float eps) {
  using Vector = VectorOf<T, VECTOR>;
  const long long total = static_cast<long long>(n) * channels * inner;
  const auto read = [&](long long offset) { return warpwise::read_words<VECTOR, SHIFTED>(x, offset, total); };
  const int channel = blockIdx.y;
  warpwise::VectorBatches<VECTOR, SHIFTED, kBatch, Vector> batches(channel, blockIdx.x, gridDim.x, n, channels, inner);
  warpwise::wait_for_previous_kernel();
  batches.load(read);
  const float origin = n > 0 ? warpwise::to_float(x[static_cast<long long>(channel) * inner]) : 0.0f;
  float sum, squares;
  warpwise::add_channel_parts(partials, parts, sum, squares);
  const float count = static_cast<float>(n) * static_cast<float>(inner), distance = sum / count;
  const float spread = squares / count - distance * distance, m = origin + distance;
  const float v = spread < 0.0f ? 0.0f : spread;  // NaN is kept
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    mean[channel] = m;
    var[channel] = v;
  }
  const float shift = bias ? warpwise::to_float(bias[channel]) : 0.0f;
  const float scale = rsqrtf(v + eps) * (weight ? warpwise::to_float(weight[channel]) : 1.0f);
  while (batches.more()) {
    batches.use([&](long long offset, warpwise::Inside inside, const Vector& values) {
      store_normalised<VECTOR, SHIFTED>(y, offset, inside, values, m, scale, shift);
    });
    if (batches.more()) batches.load(read);
  }
}
