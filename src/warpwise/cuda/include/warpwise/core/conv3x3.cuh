// Convolutions of 3 x 3 with padding 1 and stride 1, and both gradients: tiles in shared memory, results in registers.
//
// d is the gradient of the convolution, (n, k, h, w). A `Source` computes it from global memory by windows of 2 x 2,
// so that it may be the result of a fused computation that is never stored:
//   Channel                                  constants of a filter, kept in shared memory
//   Raw                                      what a window reads
//   prepare(channels, first, count, publish) fills the constants of `count` filters; all threads call it
//   load(plane, r, c)                        reads window (r, c) of plane image * k + filter; zeros outside of it
//   finish(channel, raw, r, c, d)            the window's four values, 0 outside of the image
// A plane in shared memory has rows of a multiple of 4 floats. Planes are 4 mod 32 floats apart, so that 16-byte loads
// of 8 adjacent planes have no bank conflict.
#pragma once

#include <warpwise/core/pack.cuh>
#include <warpwise/core/reduce.cuh>

namespace warpwise {

constexpr int kConvThreads = 256;

__host__ __device__ constexpr int conv_plane(int floats) { return floats + (36 - floats % 32) % 32; }

// Tiles that cover an extent; mostly one.
__device__ inline int conv_tiles(int extent, int tile) { return tile >= extent ? 1 : (extent + tile - 1) / tile; }

// value / by for value <= kConvThreads and by < 2^13: the float quotient is off by less than 2^-14 < 0.5 / by.
__device__ inline int conv_quotient(int value, int by) {
  return static_cast<int>(__fdividef(static_cast<float>(value) + 0.5f, static_cast<float>(by)));
}

// The remainder of `rest` by the number of tiles, with which `rest` is divided.
__device__ inline int conv_digit(int& rest, int tiles) {
  if (tiles == 1) return 0;
  const int digit = rest % tiles;
  rest /= tiles;
  return digit;
}

// A position in (planes, rows, columns) that advances by kConvThreads elements without a division. It starts at
// element threadIdx.x.
struct ConvWalk {
  int rows, columns, plane, row, column, plane_step, row_step, column_step;

  __device__ ConvWalk(int rows_, int columns_) : rows(rows_), columns(columns_) {
    const int line = conv_quotient(threadIdx.x, columns), lines = conv_quotient(kConvThreads, columns);
    plane = conv_quotient(line, rows);
    row = line - plane * rows;
    column = threadIdx.x - line * columns;
    plane_step = conv_quotient(lines, rows);
    row_step = lines - plane_step * rows;
    column_step = kConvThreads - lines * columns;
  }
  __device__ void advance() {
    column += column_step;
    row += row_step;
    plane += plane_step;
    if (column >= columns) {
      column -= columns;
      ++row;
    }
    if (row >= rows) {
      row -= rows;
      ++plane;
    }
  }
};

__device__ inline void conv_zero(float* shared, int floats) {
  for (int i = threadIdx.x * 4; i < floats; i += kConvThreads * 4) *packs(shared + i) = Pack<float>{};
}

// The pixels of a window of 2 x 2 at (row, column) that are inside of the image. PAIRS: w is even, and `from` aligned
// to 8 bytes.
template <bool PAIRS>
__device__ inline void conv_read_window(float (&values)[4], const float* from, int row, int column, int h, int w) {
  if (PAIRS) {
    *reinterpret_cast<Pack<float, 8>*>(values) = *packs<8>(from);
    if (row + 1 < h) *reinterpret_cast<Pack<float, 8>*>(values + 2) = *packs<8>(from + w);
    return;
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (row + e / 2 < h && column + e % 2 < w) values[e] = from[e / 2 * w + e % 2];
  }
}

// Fills planes: (count, rows, stride) with d of filters first_plane + p: row i is row top + i of the image, column j
// is column left + j. Only windows in rows [r0, r1) and columns [c0, c1) of windows are written.
template <class Source>
__device__ inline void conv_fill_windows(const Source& source, const typename Source::Channel* channels,
                                         int first_plane, int count, int r0, int r1, int c0, int c1, float* planes,
                                         int plane, int stride, int top, int left, int rows, int columns) {
  constexpr int kBatch = 4;  // windows whose loads are in flight together
  const int total = count * (r1 - r0) * (c1 - c0);
  ConvWalk walk(r1 - r0, c1 - c0);
  for (int i = threadIdx.x; i < total; i += kBatch * kConvThreads) {
    typename Source::Raw raw[kBatch];
    int p[kBatch], r[kBatch], c[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      p[b] = i + b * kConvThreads < total ? walk.plane : -1;
      r[b] = r0 + walk.row;
      c[b] = c0 + walk.column;
      if (p[b] >= 0) raw[b] = source.load(first_plane + p[b], r[b], c[b]);
      walk.advance();
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (p[b] < 0) continue;
      float d[4];
      source.finish(channels[p[b]], raw[b], r[b], c[b], d);
      const int row = 2 * r[b] - top, column = 2 * c[b] - left;
      float* const to = planes + p[b] * plane + row * stride + column;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int at_row = row + e / 2, at_column = column + e % 2;
        if (at_row >= 0 && at_row < rows && at_column >= 0 && at_column < columns) to[e / 2 * stride + e % 2] = d[e];
      }
    }
  }
}

// Fills planes: (count, rows, stride) from x: (count, h, w): row i is row top + i, column j is column left + j, 0
// outside of the image. Columns outside of it are not written. Adjacent threads have adjacent columns: 2^n threads a
// row, the smallest that hold it, or 32.
template <int BATCH>
__device__ inline void conv_fill_image(const float* x, int count, int h, int w, float* planes, int plane, int stride,
                                       int top, int left, int rows, int columns) {
  const int first = max(0, -left), last = min(columns, w - left);
  const int bits = min(5, 32 - __clz(max(1, last - first) - 1)), step = kConvThreads >> bits;
  const int line = threadIdx.x >> bits, plane_step = conv_quotient(step, rows), row_step = step - plane_step * rows;
  for (int column = first + (threadIdx.x & ((1 << bits) - 1)); column < last; column += 1 << bits) {
    int at_plane = conv_quotient(line, rows), row = line - at_plane * rows;
    while (at_plane < count) {
      float values[BATCH];
      int at[BATCH];
#pragma unroll
      for (int b = 0; b < BATCH; ++b) {
        const int from = top + row;
        at[b] = at_plane < count ? at_plane * plane + row * stride + column : -1;
        values[b] = at[b] >= 0 && from >= 0 && from < h ? x[(at_plane * h + from) * w + left + column] : 0.0f;
        row += row_step;
        at_plane += plane_step;
        if (row >= rows) {
          row -= rows;
          ++at_plane;
        }
      }
#pragma unroll
      for (int b = 0; b < BATCH; ++b) {
        if (at[b] >= 0) planes[at[b]] = values[b];
      }
    }
  }
}

// sums[i][j] += sum over `count` planes and taps (a, b) of weights[3 a + b][i] * from[a][b + j]. `from` is this
// thread's first element of a plane, `weights` its first output; taps are PITCH floats apart. Both are aligned to 16
// bytes.
template <int PITCH, int EACH>
__device__ inline void conv_add_taps(float (&sums)[EACH][4], const float* from, int plane, int stride,
                                     const float* weights, int count) {
  for (int p = 0; p < count; ++p) {
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      float values[6];
      *reinterpret_cast<Pack<float>*>(values) = *packs(from + a * stride);
      *reinterpret_cast<Pack<float, 8>*>(values + 4) = *packs<8>(from + a * stride + 4);
#pragma unroll
      for (int b = 0; b < 3; ++b) {
#pragma unroll
        for (int i = 0; i < EACH; i += 4) {
          const Pack<float> tap = *packs(weights + (3 * a + b) * PITCH + i);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
#pragma unroll
            for (int j = 0; j < 4; ++j) sums[i + e][j] += tap.at[e] * values[b + j];
          }
        }
      }
    }
    from += plane;
    weights += 9 * PITCH;
  }
}

// The tiles of a convolution's output: `rows` (even) x 4 `strips` pixels of EACH GROUPS planes. A thread has EACH
// planes and four adjacent pixels; threads of a warp have adjacent rows and mostly the same planes.
template <int GROUPS, int EACH = 4>
struct ConvTile {
  static constexpr int kPlanes = EACH * GROUPS, kPitch = kPlanes + 4, kPlaces = kConvThreads / GROUPS;
  static constexpr int kChunk = GROUPS == 1 ? 8 : 16;  // planes of the input in shared memory at a time
  int image, first, top, left, stride, plane, row, strip, group;
  bool active;

  // `block` counts tiles of planes, then of columns, of rows, and images.
  __device__ ConvTile(int block, int outputs, int h, int w, int rows, int strips) {
    image = block;
    first = conv_digit(image, conv_tiles(outputs, kPlanes)) * kPlanes;
    left = conv_digit(image, conv_tiles(w, 4 * strips)) * 4 * strips;
    top = conv_digit(image, conv_tiles(h, rows)) * rows;
    stride = 4 * ((strips + 1) | 1);  // rows are an odd multiple of 4 apart: 8 of them have no bank conflict
    plane = conv_plane((rows + 2) * stride);
    const int place = threadIdx.x % kPlaces;
    strip = conv_quotient(place, rows);
    row = place - strip * rows;
    group = threadIdx.x / kPlaces;
    active = strip < strips;
  }
  __device__ const float* from(const float* planes) const { return planes + row * stride + 4 * strip; }

  // Elements of this thread's four pixels that are inside of the image.
  __device__ int valid(int h, int w) const {
    return active && top + row < h ? max(0, min(4, w - left - 4 * strip)) : 0;
  }

  // y: (images, outputs, h, w) = sums. They pass through `shared`, so that stores are coalesced.
  __device__ void store(float* shared, const float (&sums)[EACH][4], float* y, int outputs, int h, int w, int rows,
                        int strips) const {
    const int width = min(4 * strips, w - left), height = min(rows, h - top), size = (width * height + 3) / 4 * 4;
    const int count = valid(h, w);
    __syncthreads();  // the last chunk's reads are complete
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      float* const to = shared + (EACH * group + i) * size + row * width + 4 * strip;
      if (count == 4 && width % 4 == 0) {
        *packs(to) = Pack<float>{{sums[i][0], sums[i][1], sums[i][2], sums[i][3]}};
        continue;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j < count) to[j] = sums[i][j];
      }
    }
    __syncthreads();
    const bool vectors = width == w && h * w % 4 == 0 && top * w % 4 == 0 && aligned(static_cast<const float*>(y));
    for (int i = threadIdx.x / kWarp; i < min(kPlanes, outputs - first); i += kConvThreads / kWarp) {
      float* const to = y + (static_cast<long long>(image) * outputs + first + i) * h * w + top * w + left;
      const float* const from = shared + i * size;
      const int lane = threadIdx.x % kWarp;
      if (vectors) {
        for (int e = 4 * lane; e < width * height; e += 4 * kWarp) *packs(to + e) = *packs(from + e);
      } else if (width == w) {
        for (int e = lane; e < width * height; e += kWarp) to[e] = from[e];
      } else {
        for (int r = 0; r < height; ++r) {
          for (int e = lane; e < width; e += kWarp) to[r * w + e] = from[r * width + e];
        }
      }
    }
  }
};

// The sums of a tile of y: (n, k, h, w) = x: (n, c, h, w) convolved with f: (k, c, 3, 3). `shared`: kChunk planes and
// their filters.
template <int GROUPS, int EACH>
__device__ inline void conv3x3_sums(float* shared, const ConvTile<GROUPS, EACH>& tile, float (&sums)[EACH][4],
                                    const float* x, const float* f, int c, int h, int w, int k, int rows, int strips) {
  using Tile = ConvTile<GROUPS, EACH>;
  float* const weights = shared + Tile::kChunk * tile.plane;
  conv_zero(shared, min(Tile::kChunk, c) * tile.plane);
  for (int start = 0; start < c; start += Tile::kChunk) {
    const int count = min(Tile::kChunk, c - start);
    __syncthreads();  // the last chunk's reads are complete
    for (int filter = threadIdx.x / kWarp; filter < Tile::kPlanes; filter += kConvThreads / kWarp) {
      const float* const from = f + (static_cast<long long>(tile.first + filter) * c + start) * 9;
      for (int e = threadIdx.x % kWarp; e < count * 9; e += kWarp) {
        weights[e * Tile::kPitch + filter] = tile.first + filter < k ? from[e] : 0.0f;
      }
    }
    const float* const from = x + (static_cast<long long>(tile.image) * c + start) * h * w;
    if (count == 1) {
      conv_fill_image<2>(from, count, h, w, shared, tile.plane, tile.stride, tile.top - 1, tile.left - 1, rows + 2,
                         4 * strips + 2);
    } else {
      conv_fill_image<8>(from, count, h, w, shared, tile.plane, tile.stride, tile.top - 1, tile.left - 1, rows + 2,
                         4 * strips + 2);
    }
    __syncthreads();
    if (tile.active) {
      conv_add_taps<Tile::kPitch>(sums, tile.from(shared), tile.plane, tile.stride, weights + EACH * tile.group, count);
    }
  }
}

// A tile of dx: (n, c, h, w) = d convolved with f: (k, c, 3, 3) transposed. `shared`: kChunk planes and their filters,
// then Channels.
template <int GROUPS, int EACH, class Source>
__device__ inline void conv3x3_grad_input(float* shared, const Source& source, const float* f, float* dx, int block,
                                          int c, int h, int w, int k, int rows, int strips) {
  using Tile = ConvTile<GROUPS, EACH>;
  const Tile tile(block, c, h, w, rows, strips);
  float* const weights = shared + Tile::kChunk * tile.plane;
  auto* const channels = reinterpret_cast<typename Source::Channel*>(weights + Tile::kChunk * 9 * Tile::kPitch);
  const int r0 = max(tile.top / 2 - 1, 0), r1 = min((tile.top + rows) / 2 + 1, (h + 1) / 2);
  const int c0 = max(tile.left / 2 - 1, 0), c1 = min(tile.left / 2 + 2 * strips + 1, (w + 1) / 2);
  conv_zero(shared, min(Tile::kChunk, k) * tile.plane);
  float sums[EACH][4] = {};
  for (int start = 0; start < k; start += Tile::kChunk) {
    const int count = min(Tile::kChunk, k - start);
    __syncthreads();  // the last chunk's reads are complete
    source.prepare(channels, start, count, false);
    for (int filter = threadIdx.x / kWarp; filter < count; filter += kConvThreads / kWarp) {
      const float* const from = f + (static_cast<long long>(start + filter) * c + tile.first) * 9;
      for (int e = threadIdx.x % kWarp; e < 9 * Tile::kPlanes; e += kWarp) {
        const int channel = e / 9, tap = e - 9 * channel;
        weights[(filter * 9 + 8 - tap) * Tile::kPitch + channel] = tile.first + channel < c ? from[e] : 0.0f;
      }
    }
    __syncthreads();
    conv_fill_windows(source, channels, tile.image * k + start, count, r0, r1, c0, c1, shared, tile.plane, tile.stride,
                      tile.top - 1, tile.left - 1, rows + 2, 4 * strips + 2);
    __syncthreads();
    if (tile.active) {
      conv_add_taps<Tile::kPitch>(sums, tile.from(shared), tile.plane, tile.stride, weights + EACH * tile.group, count);
    }
  }
  tile.store(shared, sums, dx, c, h, w, rows, strips);
}

// The parts of a sum over images and bands of rows: `share` units a split, a unit is (image, band).
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

// A part of dw: (k, c, 3, 3) and, if `biases` is not null, of db: (k): the sums over a split, to partials: (splits
// sides, k c 9) and biases: (splits sides, k). A block has 16 FILTERS filters and 16 channels, a thread FILTERS and 1,
// with all nine taps. `block` counts tiles of channels, of filters, of columns (sides), and splits.
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
    __syncthreads();  // the last unit's reads are complete
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
  __syncthreads();  // the tiles are free: the sums pass through them, so that stores are coalesced
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

// The same for up to CHANNELS input channels, which leave few sums: a warp has a filter, a lane windows of 2 x 2, whose
// d stays in registers. partials: (splits, k c 9), biases: (splits, k). `block` counts tiles of 8 filters, and splits.
template <int CHANNELS, class Source>
__device__ inline void conv3x3_grad_weight_few(float* shared, const Source& source, const float* x, float* partials,
                                               float* biases, int block, int share, int n, int c, int h, int w, int k,
                                               int rows) {
  constexpr int kWarps = kConvThreads / kWarp;
  const int bands = conv_tiles(h, rows), across = (w + 1) / 2;
  int split = block;
  const int first = conv_digit(split, conv_tiles(k, kWarps)) * kWarps, filters = min(kWarps, k - first);
  const int stride = 2 * across + 4, plane = conv_plane((rows + 2) * stride);
  auto* const constants = reinterpret_cast<typename Source::Channel*>(shared + CHANNELS * plane);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int row_step = conv_quotient(kWarp, across), column_step = kWarp - row_step * across;
  const int first_row = conv_quotient(lane, across);

  conv_zero(shared, CHANNELS * plane);
  source.prepare(constants, first, filters, split == 0);
  float sums[CHANNELS][9] = {}, bias = 0.0f;
  for (ConvSplit unit(split, share, n * bands, bands); unit.begin < unit.end; unit.advance(bands)) {
    const int top = unit.band * rows, end = min((top + rows) / 2, (h + 1) / 2);
    __syncthreads();  // the last unit's reads are complete
    conv_fill_image<CHANNELS == 1 ? 2 : 8>(x + static_cast<long long>(unit.image) * c * h * w, c, h, w, shared, plane,
                                           stride, top - 1, -1, rows + 2, w + 2);
    __syncthreads();
    if (warp >= filters) continue;
    const typename Source::Channel constant = constants[warp];
    const int d_plane = unit.image * k + first + warp;
    int r = top / 2 + first_row, column = lane - first_row * across;
#pragma unroll 2
    while (r < end) {
      float d[4];
      source.finish(constant, source.load(d_plane, r, column), r, column, d);
      if (Source::kBias) bias += d[0] + d[1] + d[2] + d[3];
#pragma unroll
      for (int channel = 0; channel < CHANNELS; ++channel) {
        const float* const from = shared + channel * plane + (2 * r - top) * stride + 2 * column;
        float values[4][4];
#pragma unroll
        for (int a = 0; a < 4; ++a) {
          *reinterpret_cast<Pack<float, 8>*>(values[a]) = *packs<8>(from + a * stride);
          *reinterpret_cast<Pack<float, 8>*>(values[a] + 2) = *packs<8>(from + a * stride + 2);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
#pragma unroll
          for (int tap = 0; tap < 9; ++tap) {
            sums[channel][tap] += d[e] * values[e / 2 + tap / 3][e % 2 + tap % 3];
          }
        }
      }
      column += column_step;
      r += row_step;
      if (column >= across) {
        column -= across;
        ++r;
      }
    }
  }

  if (warp >= filters) return;
#pragma unroll
  for (int channel = 0; channel < CHANNELS; ++channel) {
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) {
      const float sum = warp_reduce<Sum>(sums[channel][tap]);
      if (lane == 0 && channel < c) {
        partials[(static_cast<long long>(split) * k + first + warp) * c * 9 + channel * 9 + tap] = sum;
      }
    }
  }
  if (!Source::kBias || !biases) return;
  bias = warp_reduce<Sum>(bias);
  if (lane == 0) biases[static_cast<long long>(split) * k + first + warp] = bias;
}

// sums: (count) = the sum over the first dimension of parts: (splits, count), in a fixed order. Grid: cdiv(count, 32).
constexpr int kPartThreads = 1024;

__global__ void __launch_bounds__(kPartThreads) conv_add_parts(const float* parts, float* sums, int count, int splits) {
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

}  // namespace warpwise
