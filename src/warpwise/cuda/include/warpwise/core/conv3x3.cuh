// 3 x 3 convolutions with padding 1 and stride 1, and the gradient of their input, from tiles in shared memory.
//
// d: (n, k, h, w) is the gradient of the convolution's output. A `Source` computes it from global memory in 2 x 2
// windows, so it may be the result of a fused computation and need not be stored:
//   Channel                                  constants of a filter, kept in shared memory
//   Raw                                      the values loaded for a window
//   prepare(channels, first, count, publish) fills the constants of `count` filters; all threads call it
//   load(plane, r, c)                        loads window (r, c) of plane image * k + filter; zeros outside of it
//   finish(channel, raw, r, c, d)            the window's four values, 0 outside of the image
// In shared memory the stride of rows is a multiple of 4 floats, and that of planes is 4 mod 32 floats, so 16-byte
// loads from 8 adjacent planes have no bank conflicts.
#pragma once

#include <warpwise/core/pack.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/walk.cuh>

namespace warpwise {

constexpr int kConvThreads = 256;

__host__ __device__ constexpr int conv_plane(int floats) { return floats + (36 - floats % 32) % 32; }

// The number of tiles that cover an extent, usually one.
__device__ inline int conv_tiles(int extent, int tile) { return tile >= extent ? 1 : (extent + tile - 1) / tile; }

// Returns rest % tiles, and divides `rest` by `tiles`.
__device__ inline int conv_digit(int& rest, int tiles) {
  if (tiles == 1) return 0;
  const int digit = rest % tiles;
  rest /= tiles;
  return digit;
}

__device__ inline void conv_zero(float* shared, int floats) {
  for (int i = threadIdx.x * 4; i < floats; i += kConvThreads * 4) *packs(shared + i) = Pack<float>{};
}

// Loads the pixels of the 2 x 2 window at (row, column) that are inside the image. PAIRS: w is even, and `from` is
// 8-byte aligned.
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

// Fills planes: (count, rows, stride) with d: plane p is filter first_plane + p, row i is row top + i of the image,
// column j is column left + j. Only the windows in window rows [r0, r1) and window columns [c0, c1) are written.
template <class Source>
__device__ inline void conv_fill_windows(const Source& source, const typename Source::Channel* channels,
                                         int first_plane, int count, int r0, int r1, int c0, int c1, float* planes,
                                         int plane, int stride, int top, int left, int rows, int columns) {
  constexpr int kBatch = 4;  // windows whose loads are in flight together
  const int total = count * (r1 - r0) * (c1 - c0);
  Walk at = walk(r1 - r0, c1 - c0, threadIdx.x, kConvThreads);
  for (int i = threadIdx.x; i < total; i += kBatch * kConvThreads) {
    typename Source::Raw raw[kBatch];
    int p[kBatch], r[kBatch], c[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      p[b] = i + b * kConvThreads < total ? at.plane : -1;
      r[b] = r0 + at.row;
      c[b] = c0 + at.column;
      if (p[b] >= 0) raw[b] = source.load(first_plane + p[b], r[b], c[b]);
      at.advance();
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

// Fills planes: (count, rows, stride) from x: (count, h, w): row i is row top + i, column j is column left + j. Rows
// outside the image are zeros; columns outside it are not written. Adjacent threads load adjacent columns: a row has
// the fewest 2^n threads that cover it, at most 32.
template <int BATCH>
__device__ inline void conv_fill_image(const float* x, int count, int h, int w, float* planes, int plane, int stride,
                                       int top, int left, int rows, int columns) {
  const int first = max(0, -left), last = min(columns, w - left);
  const int bits = min(5, 32 - __clz(max(1, last - first) - 1)), step = kConvThreads >> bits;
  const int line = threadIdx.x >> bits, plane_step = quotient(step, rows), row_step = step - plane_step * rows;
  for (int column = first + (threadIdx.x & ((1 << bits) - 1)); column < last; column += 1 << bits) {
    int at_plane = quotient(line, rows), row = line - at_plane * rows;
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

// sums[i][j] += sum over `count` planes and taps (a, b) of weights[3 a + b][i] * from[a][b + j]. `from` points to this
// thread's first element of a plane, `weights` to the weights of its first output; taps are PITCH floats apart. Both
// are 16-byte aligned.
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

// A tile of a convolution's output: `rows` (even) x 4 * strips pixels of EACH * GROUPS planes. A thread computes four
// adjacent pixels of EACH planes; the threads of a warp compute adjacent rows, mostly of the same planes.
template <int GROUPS, int EACH = 4>
struct ConvTile {
  static constexpr int kPlanes = EACH * GROUPS, kPitch = kPlanes + 4, kPlaces = kConvThreads / GROUPS;
  static constexpr int kChunk = GROUPS == 1 ? 8 : 16;  // planes of the input in shared memory at a time
  int image, first, top, left, stride, plane, row, strip, group;
  bool active;

  // `block` enumerates tiles of planes (fastest), of columns, of rows, and images.
  __device__ ConvTile(int block, int outputs, int h, int w, int rows, int strips) {
    image = block;
    first = conv_digit(image, conv_tiles(outputs, kPlanes)) * kPlanes;
    left = conv_digit(image, conv_tiles(w, 4 * strips)) * 4 * strips;
    top = conv_digit(image, conv_tiles(h, rows)) * rows;
    stride = 4 * ((strips + 1) | 1);  // an odd multiple of 4: 8 adjacent rows have no bank conflicts
    plane = conv_plane((rows + 2) * stride);
    const int place = threadIdx.x % kPlaces;
    strip = quotient(place, rows);
    row = place - strip * rows;
    group = threadIdx.x / kPlaces;
    active = strip < strips;
  }
  __device__ const float* from(const float* planes) const { return planes + row * stride + 4 * strip; }

  // How many of this thread's four pixels are inside the image.
  __device__ int valid(int h, int w) const {
    return active && top + row < h ? max(0, min(4, w - left - 4 * strip)) : 0;
  }

  // Stores the sums to y: (images, outputs, h, w), through `shared`, so that stores are coalesced.
  __device__ void store(float* shared, const float (&sums)[EACH][4], float* y, int outputs, int h, int w, int rows,
                        int strips) const {
    const int width = min(4 * strips, w - left), height = min(rows, h - top), size = (width * height + 3) / 4 * 4;
    const int count = valid(h, w);
    __syncthreads();  // the reads of the previous chunk are complete
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
    // Both ends of the tile, a range of the plane, are multiples of 4: no store crosses into the next tile.
    const bool vectors = width == w && h * w % 4 == 0 && top * w % 4 == 0 && height * w % 4 == 0 &&
                         aligned(static_cast<const float*>(y));
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

// Computes the sums of a tile of y: (n, k, h, w) = x: (n, c, h, w) convolved with f: (k, c, 3, 3). `shared` holds
// kChunk planes and their filters.
template <int GROUPS, int EACH>
__device__ inline void conv3x3_sums(float* shared, const ConvTile<GROUPS, EACH>& tile, float (&sums)[EACH][4],
                                    const float* x, const float* f, int c, int h, int w, int k, int rows, int strips) {
  using Tile = ConvTile<GROUPS, EACH>;
  float* const weights = shared + Tile::kChunk * tile.plane;
  conv_zero(shared, min(Tile::kChunk, c) * tile.plane);
  for (int start = 0; start < c; start += Tile::kChunk) {
    const int count = min(Tile::kChunk, c - start);
    __syncthreads();  // the reads of the previous chunk are complete
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

// Computes a tile of dx: (n, c, h, w) = d convolved with f: (k, c, 3, 3) transposed, or of a part of dx: (splits, n, c,
// h, w), the sum over `share` filters. `block` enumerates splits (fastest) and tiles. `shared` holds kChunk planes and
// their filters, then their Channels.
template <int GROUPS, int EACH, class Source>
__device__ inline void conv3x3_grad_input(float* shared, const Source& source, const float* f, float* dx, int block,
                                          int n, int c, int h, int w, int k, int rows, int strips, int splits,
                                          int share) {
  using Tile = ConvTile<GROUPS, EACH>;
  const int split = conv_digit(block, splits), last = min(k, (split + 1) * share);
  const Tile tile(block, c, h, w, rows, strips);
  dx += static_cast<long long>(split) * n * c * h * w;
  float* const weights = shared + Tile::kChunk * tile.plane;
  auto* const channels = reinterpret_cast<typename Source::Channel*>(weights + Tile::kChunk * 9 * Tile::kPitch);
  const int r0 = max(tile.top / 2 - 1, 0), r1 = min((tile.top + rows) / 2 + 1, (h + 1) / 2);
  const int c0 = max(tile.left / 2 - 1, 0), c1 = min(tile.left / 2 + 2 * strips + 1, (w + 1) / 2);
  conv_zero(shared, min(Tile::kChunk, k) * tile.plane);
  float sums[EACH][4] = {};
  for (int start = split * share; start < last; start += Tile::kChunk) {
    const int count = min(Tile::kChunk, last - start);
    __syncthreads();  // the reads of the previous chunk are complete
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

}  // namespace warpwise
