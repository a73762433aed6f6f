// The gradient of the filters of a 3 x 3 convolution with padding 1: partial sums over pixels, then their sum.
#pragma once

#include <warpwise/core/conv3x3.cuh>
#include <warpwise/core/previous_kernel.cuh>

namespace warpwise {

// Divides a sum over units (image, band of rows) into splits of `share` units.
struct ConvSplit {
  int begin, end, band, image;
  __device__ ConvSplit(int split, int share, int units, int bands) {
    begin = split * share;
    end = min(units, begin + share);
    image = begin;
    band = conv_digit(image, bands);
  }
  __device__ void advance(int bands) {
    ++begin;
    if (++band == bands) {
      band = 0;
      ++image;
    }
  }
};

// Partial sums of dw: (k, c, 3, 3) and, if `biases` is not null, of db: (k), over a split, to partials: (splits sides,
// k c 9) and biases: (splits sides, k). A block computes 16 FILTERS filters and 16 channels, a thread FILTERS filters,
// one channel and all taps. `block` enumerates tiles of channels, filters and columns (sides), and splits.
template <int FILTERS, class Source>
__device__ inline void conv3x3_grad_weight(float* shared, const Source& source, const float* x, float* partials,
                                           float* biases, int block, int share, int n, int c, int h, int w, int k,
                                           int rows, int strips) {
  constexpr int kChannels = 16, kFilters = 16 * FILTERS, kWarps = kConvThreads / kWarp;
  const int sides = conv_tiles(w, 4 * strips), bands = conv_tiles(h, rows);
  int split = block;
  const int first_channel = conv_digit(split, conv_tiles(c, kChannels)) * kChannels;
  const int first_filter = conv_digit(split, conv_tiles(k, kFilters)) * kFilters;
  const int side = conv_digit(split, sides);
  const int left = 4 * strips * side, stride = 4 * strips + 4, d_stride = 4 * strips;
  const int x_plane = conv_plane((rows + 2) * stride), d_plane = conv_plane(rows * d_stride);
  const int filters = min(kFilters, k - first_filter), channels = min(kChannels, c - first_channel);
  float* const d_planes = shared + kChannels * x_plane;
  auto* const constants = reinterpret_cast<typename Source::Channel*>(d_planes + kFilters * d_plane);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int channel = lane % 8 + warp % 2 * 8, filter = lane / 8 + warp / 2 * 4;  // and filter + 16, ...
  const int c1 = min(left / 2 + 2 * strips, (w + 1) / 2);

  conv_zero(shared, kChannels * x_plane + kFilters * d_plane);
  source.prepare(constants, first_filter, filters, split == 0 && side == 0 && first_channel == 0);
  float sums[FILTERS][9] = {}, bias[kFilters / kWarps] = {};
  for (ConvSplit unit(split, share, n * bands, bands); unit.begin < unit.end; unit.advance(bands)) {
    const int top = unit.band * rows, valid = min(rows, h - top);
    __syncthreads();  // the reads of the previous unit are complete
    conv_fill_image<8>(x + (static_cast<long long>(unit.image) * c + first_channel) * h * w, channels, h, w, shared,
                       x_plane, stride, top - 1, left - 1, rows + 2, 4 * strips + 2);
    conv_fill_windows(source, constants, unit.image * k + first_filter, filters, top / 2, (top + valid + 1) / 2,
                      left / 2, c1, d_planes, d_plane, d_stride, top, left, rows, d_stride);
    __syncthreads();
    if (Source::kBias && biases && first_channel == 0) {
      const int end = valid * d_stride;
#pragma unroll
      for (int j = 0; j < kFilters / kWarps; ++j) {
        for (int i = lane; i < end; i += kWarp) bias[j] += d_planes[(warp + j * kWarps) * d_plane + i];
      }
    }
    for (int row = 0; row < valid; ++row) {
      const float* const image = shared + channel * x_plane + row * stride;
      const float* const gradient = d_planes + filter * d_plane + row * d_stride;
      float values[3][8];
#pragma unroll
      for (int a = 0; a < 3; ++a) *reinterpret_cast<Pack<float>*>(values[a]) = *packs(image + a * stride);
#pragma unroll 2
      for (int strip = 0; strip < strips; ++strip) {
#pragma unroll
        for (int a = 0; a < 3; ++a) {
          *reinterpret_cast<Pack<float>*>(values[a] + 4) = *packs(image + a * stride + 4 * strip + 4);
        }
#pragma unroll
        for (int j = 0; j < FILTERS; ++j) {
          const Pack<float> d = *packs(gradient + 16 * j * d_plane + 4 * strip);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
#pragma unroll
            for (int tap = 0; tap < 9; ++tap) sums[j][tap] += d.at[e] * values[tap / 3][tap % 3 + e];
          }
        }
#pragma unroll
        for (int a = 0; a < 3; ++a) {
#pragma unroll
          for (int e = 0; e < 4; ++e) values[a][e] = values[a][4 + e];
        }
      }
    }
  }

  const long long part = static_cast<long long>(split) * sides + side;
  __syncthreads();  // the sums are staged in the tiles' memory, so that stores are coalesced
#pragma unroll
  for (int j = 0; j < FILTERS; ++j) {
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) shared[((filter + 16 * j) * kChannels + channel) * 9 + tap] = sums[j][tap];
  }
  __syncthreads();
  for (int i = warp; i < filters; i += kWarps) {
    float* const to = partials + ((part * k + first_filter + i) * c + first_channel) * 9;
    for (int e = lane; e < channels * 9; e += kWarp) to[e] = shared[i * kChannels * 9 + e];
  }
  if (Source::kBias && biases && first_channel == 0) {
#pragma unroll
    for (int j = 0; j < kFilters / kWarps; ++j) {
      const float sum = warp_reduce<Sum>(bias[j]);
      if (lane == 0 && warp + j * kWarps < filters) biases[part * k + first_filter + warp + j * kWarps] = sum;
    }
  }
}

// The same for at most CHANNELS input channels, which have few sums: a warp computes FILTERS filters, a lane takes 2 x
// 2 windows and keeps their d in registers. partials: (splits, k c 9), biases: (splits, k). `block`: tiles of 8 FILTERS
// filters, and splits.
template <int CHANNELS, int FILTERS, class Source>
__device__ inline void conv3x3_grad_weight_few(float* shared, const Source& source, const float* x, float* partials,
                                               float* biases, int block, int share, int n, int c, int h, int w, int k,
                                               int rows) {
  constexpr int kWarps = kConvThreads / kWarp, kFilters = FILTERS * kWarps;
  const int bands = conv_tiles(h, rows), across = (w + 1) / 2;
  int split = block;
  const int first = conv_digit(split, conv_tiles(k, kFilters)) * kFilters, filters = min(kFilters, k - first);
  const int stride = 2 * across + 4, plane = conv_plane((rows + 2) * stride);
  auto* const constants = reinterpret_cast<typename Source::Channel*>(shared + CHANNELS * plane);
  const int lane = threadIdx.x % kWarp, own = threadIdx.x / kWarp * FILTERS;  // the warp's first filter
  const int row_step = quotient(kWarp, across), column_step = kWarp - row_step * across;
  const int first_row = quotient(lane, across);

  conv_zero(shared, CHANNELS * plane);
  source.prepare(constants, first, filters, split == 0);
  float sums[FILTERS][CHANNELS][9] = {}, bias[FILTERS] = {};
  for (ConvSplit unit(split, share, n * bands, bands); unit.begin < unit.end; unit.advance(bands)) {
    const int top = unit.band * rows, end = min((top + rows) / 2, (h + 1) / 2);
    int r = top / 2 + first_row, column = lane - first_row * across;
    typename Source::Raw next[FILTERS];  // one window ahead; zeros outside of the image
    const auto load = [&] {
#pragma unroll
      for (int j = 0; j < FILTERS; ++j)
        next[j] = source.load(unit.image * k + first + min(own + j, filters - 1), r, column);
    };
    load();
    __syncthreads();  // the reads of the previous unit are complete
    conv_fill_image<CHANNELS == 1 ? 2 : 8>(x + static_cast<long long>(unit.image) * c * h * w, c, h, w, shared, plane,
                                           stride, top - 1, -1, rows + 2, w + 2);
    __syncthreads();
    if (own >= filters) continue;
    while (r < end) {
      const int row = r, left = column;
      float d[FILTERS][4];
#pragma unroll
      for (int j = 0; j < FILTERS; ++j) {
        source.finish(constants[min(own + j, filters - 1)], next[j], row, left, d[j]);
        if (Source::kBias) bias[j] += d[j][0] + d[j][1] + d[j][2] + d[j][3];
      }
      column += column_step;
      r += row_step;
      if (column >= across) {
        column -= across;
        ++r;
      }
      if (r < end) load();
#pragma unroll
      for (int channel = 0; channel < CHANNELS; ++channel) {
        const float* const from = shared + channel * plane + (2 * row - top) * stride + 2 * left;
        float values[4][4];
#pragma unroll
        for (int a = 0; a < 4; ++a) {
          *reinterpret_cast<Pack<float, 8>*>(values[a]) = *packs<8>(from + a * stride);
          *reinterpret_cast<Pack<float, 8>*>(values[a] + 2) = *packs<8>(from + a * stride + 2);
        }
#pragma unroll
        for (int j = 0; j < FILTERS; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
#pragma unroll
            for (int tap = 0; tap < 9; ++tap) {
              sums[j][channel][tap] += d[j][e] * values[e / 2 + tap / 3][e % 2 + tap % 3];
            }
          }
        }
      }
    }
  }

#pragma unroll
  for (int j = 0; j < FILTERS; ++j) {
    if (own + j >= filters) return;
    const long long filter = static_cast<long long>(split) * k + first + own + j;
#pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel) {
#pragma unroll
      for (int tap = 0; tap < 9; ++tap) {
        const float sum = warp_reduce<Sum>(sums[j][channel][tap]);
        if (lane == 0 && channel < c) partials[(filter * c + channel) * 9 + tap] = sum;
      }
    }
    if (!Source::kBias || !biases) continue;
    const float sum = warp_reduce<Sum>(bias[j]);
    if (lane == 0) biases[filter] = sum;
  }
}

// sums: (count) = the sum over the first dimension of parts: (splits, count), in a fixed order. Grid: cdiv(count, 32).
constexpr int kPartThreads = 1024;

__global__ void __launch_bounds__(kPartThreads) conv_add_parts(const float* parts, float* sums, int count, int splits) {
  wait_for_previous_kernel();
  constexpr int kWarps = kPartThreads / kWarp;
  __shared__ float warp_sums[kWarps][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, at = blockIdx.x * kWarp + lane;
  float sum = 0.0f;
#pragma unroll 8
  for (int split = warp; at < count && split < splits; split += kWarps) {
    sum += __ldcg(parts + static_cast<long long>(split) * count + at);
  }
  warp_sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || at >= count) return;
  sum = 0.0f;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += warp_sums[w][lane];
  sums[at] = sum;
}

// Both gradients in one launch. CHANNELS: 1 or 4 if the input has at most that many channels, else 16. A thread
// computes FILTERS filters of dw, or EACH channels of dx. The first `weight_blocks` blocks compute parts of dw, and of
// db if `biases` is not null, from `share` bands of weight_rows rows each; the others, if INPUT, tiles of dx, or of its
// parts for input_splits > 1, of input_share filters each.
template <int CHANNELS, int FILTERS, int EACH, bool INPUT, class Source>
__device__ inline void conv3x3_gradients(float* shared, const Source& source, const float* x, const float* f, float* dx,
                                         float* partials, float* biases, int n, int c, int h, int w, int k,
                                         int weight_blocks, int share, int weight_rows, int weight_strips,
                                         int input_rows, int input_strips, int input_splits, int input_share) {
  const int block = blockIdx.x;
  if (INPUT && block >= weight_blocks) {
    conv3x3_grad_input<CHANNELS == 16 ? 4 : 1, EACH>(shared, source, f, dx, block - weight_blocks, n, c, h, w, k,
                                                     input_rows, input_strips, input_splits, input_share);
  } else if constexpr (CHANNELS == 16) {
    conv3x3_grad_weight<FILTERS>(shared, source, x, partials, biases, block, share, n, c, h, w, k, weight_rows,
                                 weight_strips);
  } else {
    conv3x3_grad_weight_few<CHANNELS, FILTERS>(shared, source, x, partials, biases, block, share, n, c, h, w, k,
                                               weight_rows);
  }
}

}  // namespace warpwise
