// NHWC with few partial sums: each block of the second launch adds those of its channels, and nothing waits for a last
// block.
//
// In k04 the last block of the first launch adds the partial sums while the other SMs are idle. Here the first rows of
// each thread are loaded while the partial sums are added.

#include <warpwise/core/channels_last.cuh>
#include <warpwise/core/words.cuh>
#include <warpwise/core/previous_kernel.cuh>

constexpr int kThreads = warpwise::kRowThreads, kBatch = 8;  // rows of a thread whose loads are in flight

// partials: (parts, channels, 2): the sums of x - o and of its square, o the first row. x: (rows, channels). Grid:
// (parts, tiles of channels), as in channels_last.cuh.
template <class T, int VECTOR>
__global__ void __launch_bounds__(kThreads) column_sums(const T* x, float* partials, long long rows, int channels,
                                                        int across) {
  using Vector = warpwise::Words<T, sizeof(T) * VECTOR>;
  const auto read = [&](long long offset) { return warpwise::words_at<sizeof(T) * VECTOR>(x + offset); };
  const auto own = warpwise::Columns<VECTOR>::of(across, channels);
  warpwise::RowBatches<kBatch, Vector> batches(own, rows, channels);
  warpwise::wait_for_previous_kernel();
  batches.load(read);
  float origin[VECTOR] = {}, sums[VECTOR] = {}, squares[VECTOR] = {};
  if (own.valid && rows > 0) {
    const Vector first = read(own.channel);
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) origin[e] = warpwise::to_float(warpwise::elements<T>(first).at[e]);
  }
  while (batches.more()) {
    batches.use([&](long long, const Vector& values) {
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) {
        const float shifted = warpwise::to_float(warpwise::elements<T>(values).at[e]) - origin[e];
        sums[e] += shifted;
        squares[e] += shifted * shifted;
      }
    });
    batches.load(read);
  }
  float sum, square;
  warpwise::block_column_sums(sums, squares, own, sum, square);
  const int lanes = across * VECTOR, channel = blockIdx.y * lanes + threadIdx.x;
  if (threadIdx.x < lanes && channel < channels) {
    const long long to = 2 * (static_cast<long long>(blockIdx.x) * channels + channel);
    *warpwise::packs<8>(partials + to) = warpwise::Pack<float, 8>{{sum, square}};
  }
}

// y = (x - mean) / sqrt(var + eps) * weight + bias; weight, bias: (channels) or null. Writes mean, var: (channels).
template <class T, class W, int VECTOR>
__global__ void __launch_bounds__(kThreads) normalise_rows(const T* x, const float* partials, int parts,
                                                           const W* weight, const W* bias, float* mean, float* var,
                                                           T* y, long long rows, int channels, int across, float eps) {
  using Vector = warpwise::Words<T, sizeof(T) * VECTOR>;
  struct Line {
    float mean, scale, shift;
  };
  __shared__ Line lines[warpwise::kWarp * VECTOR];  // of the block's channels
  const auto read = [&](long long offset) { return warpwise::words_at<sizeof(T) * VECTOR>(x + offset); };
  const auto own = warpwise::Columns<VECTOR>::of(across, channels);
  const int lanes = across * VECTOR, thread = threadIdx.x, channel = blockIdx.y * lanes + thread;
  warpwise::RowBatches<kBatch, Vector, true> batches(own, rows, channels);
  warpwise::wait_for_previous_kernel();
  batches.load(read);
  float sum, square;
  warpwise::add_column_parts(partials, parts, lanes, channels, sum, square);
  if (thread < lanes && channel < channels) {
    const float count = static_cast<float>(rows), distance = sum / count, spread = square / count - distance * distance;
    const float m = (rows > 0 ? warpwise::to_float(x[channel]) : 0.0f) + distance;
    const float v = spread < 0.0f ? 0.0f : spread;  // NaN is kept
    if (blockIdx.x == 0) {
      mean[channel] = m;
      var[channel] = v;
    }
    lines[thread] = {m, rsqrtf(v + eps) * (weight ? warpwise::to_float(weight[channel]) : 1.0f),
                     bias ? warpwise::to_float(bias[channel]) : 0.0f};
  }
  __syncthreads();
  if (!batches.more()) return;
  Line mine[VECTOR];
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) mine[e] = lines[thread % across * VECTOR + e];
  while (batches.more()) {
    batches.use([&](long long offset, const Vector& values) {
      warpwise::Pack<T, sizeof(T) * VECTOR> result;
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) {
        const float value =
            (warpwise::to_float(warpwise::elements<T>(values).at[e]) - mine[e].mean) * mine[e].scale + mine[e].shift;
        result.at[e] = warpwise::from_float<T>(value);
      }
      *warpwise::packs<sizeof(T) * VECTOR>(y + offset) = result;
    });
    batches.load(read);
  }
}
