// NHWC with few partial sums: each block of the second launch adds those of its channels, and nothing waits for a last
// block.
//
// In k03 the last block of the first launch adds the partial sums while the other SMs are idle. Here each block reads
// the partial sums of its channels from L2 instead.

#include <warpwise/core/channels_last.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "gradient.cuh"

constexpr int kThreads = warpwise::kRowThreads, kBatch = 4;  // rows of a thread whose loads are in flight

// partials: (parts, channels, 2) of sum dy and sum dy h, with h = (x - mean) * rstd. x: (rows, channels); dy likewise,
// or null for zeros. Grid: (parts, tiles of channels), as in channels_last.cuh.
template <class T, int VECTOR>
__global__ void __launch_bounds__(kThreads) gradient_column_sums(const T* dy, const T* x, const float* mean,
                                                                 const float* var, float* partials, long long rows,
                                                                 int channels, int across, float eps) {
  const auto read = [&](long long offset) { return read_pair<T, VECTOR>(dy, x, offset); };
  const auto own = warpwise::Columns<VECTOR>::of(across, channels);
  warpwise::RowBatches<kBatch, Pair<T, VECTOR>> batches(own, rows, channels);
  warpwise::wait_for_previous_kernel();
  if (dy) batches.load(read);
  float m[VECTOR] = {}, rstd[VECTOR] = {}, gradients[VECTOR] = {}, dots[VECTOR] = {};
  if (own.valid) {
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      m[e] = mean[own.channel + e];
      rstd[e] = rsqrtf(var[own.channel + e] + eps);
    }
  }
  if (dy) {
    while (batches.more()) {
      batches.use([&](long long, const Pair<T, VECTOR>& pair) {
#pragma unroll
        for (int e = 0; e < VECTOR; ++e) {
          const float g = pair.gradient(e);
          gradients[e] += g;
          dots[e] += g * (pair.input(e) - m[e]) * rstd[e];
        }
      });
      batches.load(read);
    }
  }
  float sum, dot;
  warpwise::block_column_sums(gradients, dots, own, sum, dot);
  const int lanes = across * VECTOR, channel = blockIdx.y * lanes + threadIdx.x;
  if (threadIdx.x < lanes && channel < channels) {
    const long long to = 2 * (static_cast<long long>(blockIdx.x) * channels + channel);
    *warpwise::packs<8>(partials + to) = warpwise::Pack<float, 8>{{sum, dot}};
  }
}

// dx: (rows, channels); dmean, dvar, weight, and the outputs dw and db: (channels) or null.
template <class T, class W, int VECTOR>
__global__ void __launch_bounds__(kThreads) gradient_of_rows(const T* dy, const float* dmean, const float* dvar,
                                                             const T* x, const W* weight, const float* mean,
                                                             const float* var, const float* partials, int parts, T* dx,
                                                             W* dw, W* db, long long rows, int channels, int across,
                                                             float eps) {
  __shared__ float sums[2 * warpwise::kWarp * VECTOR];  // of the block's channels
  const auto read = [&](long long offset) { return read_pair<T, VECTOR>(dy, x, offset); };
  const auto own = warpwise::Columns<VECTOR>::of(across, channels);
  const int lanes = across * VECTOR, first = blockIdx.y * lanes, thread = threadIdx.x;
  warpwise::RowBatches<kBatch, Pair<T, VECTOR>, true> batches(own, rows, channels);
  warpwise::wait_for_previous_kernel();
  batches.load(read);
  float sum, dot;
  warpwise::add_column_parts(partials, parts, lanes, channels, sum, dot);
  if (thread < lanes) {
    sums[2 * thread] = sum;
    sums[2 * thread + 1] = dot;
    if (blockIdx.x == 0 && first + thread < channels)
      store_sums(static_cast<float*>(nullptr), dw, db, first + thread, sum, dot);
  }
  __syncthreads();
  if (!own.valid) return;
  Line lines[VECTOR];
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) {
    const float* const totals = sums + 2 * (own.channel - first + e);
    lines[e] =
        Line::of(own.channel + e, static_cast<float>(rows), dmean, dvar, weight, mean, var, totals[0], totals[1], eps);
  }
  while (batches.more()) {
    batches.use([&](long long offset, const Pair<T, VECTOR>& pair) {
      warpwise::Elements<T, VECTOR> result;
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        result.at[e] = warpwise::from_float<T>(lines[e].at(pair.gradient(e), pair.input(e)));
      *warpwise::packs<sizeof(T) * VECTOR>(dx + offset) = result;
    });
    batches.load(read);
  }
}
