// NHWC, and (N, C): a thread takes up to 16 bytes of adjacent channels of many rows, so that a warp reads whole
// sectors.
//
// The sums are shifted by the first row, as in k03.

#include <warpwise/core/channels_last.cuh>
#include <warpwise/core/pack.cuh>

constexpr int kThreads = warpwise::kRowThreads;

// x: (rows, channels), mean, var: (channels). Grid: (parts, tiles of channels), as in channels_last.cuh.
template <class T, int VECTOR>
__global__ void __launch_bounds__(kThreads) column_statistics(const T* x, float* mean, float* var, float* partials,
                                                              int* semaphores, long long rows, int channels,
                                                              int across) {
  using Vector = warpwise::Pack<T, sizeof(T) * VECTOR>;
  const auto read = [&](long long offset) { return *warpwise::packs<sizeof(T) * VECTOR>(x + offset); };
  const auto own = warpwise::Columns<VECTOR>::of(across, channels);
  float origin[VECTOR] = {}, sums[VECTOR] = {}, squares[VECTOR] = {};
  if (own.valid && rows > 0) {
    const auto first = *warpwise::packs<sizeof(T) * VECTOR>(x + own.channel);
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) origin[e] = warpwise::to_float(first.at[e]);
  }
  own.for_each_row(rows, channels, read, [&](long long, const Vector& values) {
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      const float shifted = warpwise::to_float(values.at[e]) - origin[e];
      sums[e] += shifted;
      squares[e] += shifted * shifted;
    }
  });
  float sum, square;
  if (!warpwise::column_sums(sums, squares, own, channels, partials, semaphores, sum, square)) return;
  const int lanes = across * VECTOR, channel = blockIdx.y * lanes + threadIdx.x;
  if (threadIdx.x >= lanes || channel >= channels) return;
  const float count = static_cast<float>(rows), distance = sum / count;
  mean[channel] = (rows > 0 ? warpwise::to_float(x[channel]) : 0.0f) + distance;
  const float spread = square / count - distance * distance;
  var[channel] = spread < 0.0f ? 0.0f : spread;  // NaN is kept
}

// y = (x - mean) / sqrt(var + eps) * weight + bias; weight, bias: (channels) or null.
template <class T, class W, int VECTOR>
__global__ void __launch_bounds__(kThreads) normalise_rows(const T* x, const float* mean, const float* var,
                                                           const W* weight, const W* bias, T* y, long long rows,
                                                           int channels, int across, float eps) {
  using Vector = warpwise::Pack<T, sizeof(T) * VECTOR>;
  const auto read = [&](long long offset) { return *warpwise::packs<sizeof(T) * VECTOR>(x + offset); };
  const auto own = warpwise::Columns<VECTOR>::of(across, channels);
  if (!own.valid) return;
  float m[VECTOR], scale[VECTOR], shift[VECTOR];
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) {
    const int channel = own.channel + e;
    m[e] = mean[channel];
    shift[e] = bias ? warpwise::to_float(bias[channel]) : 0.0f;
    scale[e] = rsqrtf(var[channel] + eps) * (weight ? warpwise::to_float(weight[channel]) : 1.0f);
  }
  own.for_each_row(rows, channels, read, [&](long long offset, Vector values) {
#pragma unroll
    for (int e = 0; e < VECTOR; ++e)
      values.at[e] = warpwise::from_float<T>((warpwise::to_float(values.at[e]) - m[e]) * scale[e] + shift[e]);
    *warpwise::packs<sizeof(T) * VECTOR>(y + offset) = values;
  });
}
