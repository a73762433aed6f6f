// Tiles of images of one channel, the sums from which the moments of their 3 x 3 patches follow, and those moments.
//
// The patch of a pixel is p: (9), the pixels under a filter, zeros outside of the image. A filter's response is w . p,
// so its mean over all pixels is w . mean(p) and its variance w^T Cov(p) w. The sums are those of z = p - o and of z_s
// z_t, o a pixel value near the mean, to avoid cancellation; they do not depend on the filters.
#pragma once

#include <warpwise/core/pack.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/walk.cuh>

namespace one_channel {

using warpwise::kFullMask;
using warpwise::kWarp;
using warpwise::Sum;
using warpwise::warp_reduce;

constexpr int kTaps = 9, kSums = kTaps + kTaps * (kTaps + 1) / 2;
constexpr int kPart = 56;  // floats of a part: 54 sums, the origin, 0; 14 loads of 16 bytes

// Index of z_s z_t, s <= t, among the 45 products of a part.
__host__ __device__ constexpr int product(int s, int t) { return kTaps + s * (2 * kTaps - s - 1) / 2 + t; }

// The origin o is the mean of 32 pixels spread over x, or the first pixel of fewer than 32, or 0 if it is not finite. A
// lane first loads one of them, and the warp adds them while its other loads are in flight.
__device__ inline float sample_of(const float* x, int pixels) { return x[pixels / kWarp * (threadIdx.x % kWarp)]; }

__device__ inline float origin_of(float sample) {
  const float origin = warp_reduce<Sum>(sample * (1.0f / kWarp));
  return fabsf(origin) < 3e38f ? origin : 0.0f;
}

// A tile has `each` images of x: (n, h, w), or one of `bands` bands of `rows` rows of an image, with a border of one
// pixel: (each, rows + 2, pitch) floats of shared memory, z = x - o within the image and -o outside. A load has VECTOR
// floats: 4 if w is a multiple of 4 and x is 16-byte aligned, else 1.
template <int THREADS, int VECTOR>
struct Tiles {
  const float* x;
  int h, w, rows, bands, each, pitch;
  float origin;

  // Fills the columns outside of the image, which `load` does not change.
  __device__ void fill_border(float* tile) const {
    for (int row = threadIdx.x; row < each * (rows + 2); row += THREADS) {
      tile[row * pitch] = tile[row * pitch + w + 1] = -origin;
    }
  }

  // Fills the tile with `units` images, or with a band whose first row is `first_row`, from `image` on. Every thread
  // calls settle() once, when its first loads are in flight.
  template <class Settle>
  __device__ void load(float* tile, int image, int first_row, int units, Settle settle) {
    constexpr int kBatch = 4;
    const int top = first_row - 1;
    warpwise::Walk at = warpwise::walk(rows + 2, w / VECTOR, threadIdx.x, THREADS);
    bool settled = false;
    do {
      warpwise::Pack<float, 4 * VECTOR> values[kBatch];
      int to[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        to[i] = at.plane < units ? (at.plane * (rows + 2) + at.row) * pitch + at.column * VECTOR + 1 : -1;
        const int row = top + at.row;
        if (to[i] >= 0 && row >= 0 && row < h) {
          values[i] = *warpwise::packs<4 * VECTOR>(x + ((image + at.plane) * h + row) * w + at.column * VECTOR);
        } else {
          values[i] = {};
        }
        at.advance();
      }
      if (!settled) settle();
      settled = true;
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (to[i] < 0) continue;
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) tile[to[i] + j] = values[i].at[j] - origin;
      }
    } while (at.plane < units);
  }
  __device__ void load(float* tile, int image, int first_row, int units) {
    load(tile, image, first_row, units, [] {});
  }
};

// Sums N values of each lane over the warp, N a multiple of 32: lane l gets the sums of values l N / 32 and following,
// in its first N / 32 elements. This takes about N shuffles, where butterfly reductions take 5 N. A template makes
// every index a constant.
template <int N, int WIDTH = N / 2, int DISTANCE = kWarp / 2>
__device__ inline void reduce_values(float (&values)[N]) {
  static_assert(N % kWarp == 0, "each lane gets N / 32 sums");
  const bool upper = threadIdx.x & DISTANCE;
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) {
    const float passed = upper ? values[i] : values[WIDTH + i], kept = upper ? values[WIDTH + i] : values[i];
    values[i] = kept + __shfl_xor_sync(kFullMask, passed, DISTANCE);
  }
  if constexpr (DISTANCE > 1) reduce_values<N, WIDTH / 2, DISTANCE / 2>(values);
}

// The sums of z and of z_s z_t over the pixels of units `first` to `last`: part, (kPart). A thread takes two pixels,
// one above the other, whose patches share six of twelve pixels. sample: that of sample_of.
template <int THREADS, int VECTOR>
__device__ inline void moment_sums(float* tile, Tiles<THREADS, VECTOR>& tiles, float sample, int first, int last,
                                   float* part) {
  constexpr int kWarps = THREADS / kWarp;
  __shared__ float warp_sums[kWarps][64];
  float sums[64] = {};
  const warpwise::Walk start = warpwise::walk(tiles.rows / 2, tiles.w, threadIdx.x, THREADS);
  for (int unit = first; unit < last; unit += tiles.each) {
    const int image = tiles.bands == 1 ? unit : unit / tiles.bands, top = (unit - image * tiles.bands) * tiles.rows;
    const int units = min(tiles.each, last - unit);
    if (unit == first) {
      tiles.load(tile, image, top, units, [&] { tiles.origin = origin_of(sample); });
      tiles.fill_border(tile);
    } else {
      tiles.load(tile, image, top, units);
    }
    __syncthreads();
    for (warpwise::Walk at = start; at.plane < units; at.advance()) {
      const float* const from = tile + (at.plane * (tiles.rows + 2) + 2 * at.row) * tiles.pitch + at.column;
      float z[12];
#pragma unroll
      for (int i = 0; i < 12; ++i) z[i] = from[i / 3 * tiles.pitch + i % 3];
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        if (top + 2 * at.row + lower >= tiles.h) continue;
#pragma unroll
        for (int s = 0; s < kTaps; ++s) {
          sums[s] += z[3 * lower + s];
#pragma unroll
          for (int t = s; t < kTaps; ++t) sums[product(s, t)] += z[3 * lower + s] * z[3 * lower + t];
        }
      }
    }
    __syncthreads();
  }
  reduce_values(sums);
  const int lane = threadIdx.x % kWarp;
  warp_sums[threadIdx.x / kWarp][2 * lane] = sums[0];
  warp_sums[threadIdx.x / kWarp][2 * lane + 1] = sums[1];
  __syncthreads();
  if (threadIdx.x >= kPart) return;
  double sum = 0.0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += warp_sums[warp][threadIdx.x];
  part[threadIdx.x] = threadIdx.x == kSums ? tiles.origin : static_cast<float>(sum);
}

// The sum of values[part] over parts first, first + step, ... below `parts`, in float64: element i of Pack T. Eight
// loads are in flight at a time.
template <class T>
__device__ inline void add_parts(double (&total)[T::size], const T* values, int first, int parts, int step,
                                 int distance) {
  constexpr int kBatch = 8;
  for (int start = first; start < parts; start += kBatch * step) {
    T batch[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (start + i * step < parts) {
        batch[i] = values[(start + i * step) * distance];
      } else {
        batch[i] = {};
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
#pragma unroll
      for (int j = 0; j < T::size; ++j) total[j] += batch[i].at[j];
    }
  }
}

// mean(z), Cov(p) and o, in double precision because variances are small differences of products.
struct Moments {
  double mean[kTaps], covariance[kTaps][kTaps];
  float origin;
};

constexpr int kMoments = kTaps * (kTaps + 1);  // numbers of mean(p) and Cov(p) in global memory

// The origin if the moments are known: the mean of the pixels.
__device__ inline float origin_at(const double* moments) {
  const double centre = moments[kTaps / 2];
  return fabs(centre) < 3e38 ? static_cast<float>(centre) : 0.0f;
}

// The moments from mean(p), (9), and Cov(p), (9, 9). All threads call it; it ends with a barrier.
__device__ inline void load_moments(Moments& moments, const double* from) {
  const float origin = origin_at(from);
  if (threadIdx.x == 0) moments.origin = origin;
  if (threadIdx.x < kTaps) {
    moments.mean[threadIdx.x] = from[threadIdx.x] - origin;
  } else if (threadIdx.x < kMoments) {
    (&moments.covariance[0][0])[threadIdx.x - kTaps] = from[threadIdx.x];
  }
  __syncthreads();
}

// The inverse of load_moments, in threads below kMoments.
__device__ inline void store_moments(double* to, const Moments& moments) {
  if (threadIdx.x < kTaps) {
    to[threadIdx.x] = moments.mean[threadIdx.x] + moments.origin;
  } else if (threadIdx.x < kMoments) {
    to[threadIdx.x] = (&moments.covariance[0][0])[threadIdx.x - kTaps];
  }
}

// The moments of 1 / `inverse` pixels from the sums of `parts` parts: (parts, kPart). All threads of a block of at
// least 256 call it; it ends with a barrier.
__device__ inline void combine_moments(Moments& moments, const float* sums, int parts, double inverse) {
  constexpr int kFours = kPart / 4, kGroups = 256 / kFours;
  __shared__ double group_sums[kGroups][kPart];
  const int four = threadIdx.x % kFours, group = threadIdx.x / kFours;
  if (group < kGroups) {
    double total[4] = {};
    add_parts(total, warpwise::packs(sums) + four, group, parts, kGroups, kFours);
#pragma unroll
    for (int i = 0; i < 4; ++i) group_sums[group][4 * four + i] = total[i];
  }
  __syncthreads();
  if (threadIdx.x < kSums) {
    double total = 0.0;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) total += group_sums[i][threadIdx.x];
    group_sums[0][threadIdx.x] = total * inverse;
  }
  __syncthreads();
  if (threadIdx.x < kTaps * kTaps) {
    const int row = threadIdx.x / kTaps, column = threadIdx.x % kTaps, s = min(row, column), t = max(row, column);
    const double* const means = group_sums[0];
    moments.covariance[row][column] = means[product(s, t)] - means[s] * means[t];
    if (row == 0) moments.mean[column] = means[column];
    if (threadIdx.x == 0) moments.origin = sums[kSums];
  }
  __syncthreads();
}

// Lists the pooling windows of a tile, `columns` per row, in the order of the output: the offset of the 4 x 4 patch in
// the low 16 bits, the index of the image in the tile in the high 16 bits.
template <int THREADS, int VECTOR>
__device__ inline void list_windows(unsigned* windows, const Tiles<THREADS, VECTOR>& tiles, int columns) {
  warpwise::Walk at = warpwise::walk(tiles.rows / 2, columns, threadIdx.x, THREADS);
  for (int i = threadIdx.x; at.plane < tiles.each; i += THREADS, at.advance()) {
    windows[i] = (at.plane * (tiles.rows + 2) + 2 * at.row) * tiles.pitch + 2 * at.column + (at.plane << 16);
  }
}

__device__ inline void read_patch(float (&patch)[4][4], const float* from, int pitch) {
#pragma unroll
  for (int row = 0; row < 4; ++row) {
    const auto left = *warpwise::packs<8>(from + row * pitch), right = *warpwise::packs<8>(from + row * pitch + 2);
    patch[row][0] = left.at[0];
    patch[row][1] = left.at[1];
    patch[row][2] = right.at[0];
    patch[row][3] = right.at[1];
  }
}

// The responses of a filter at the four pixels of a window, plus `bias`. The order of the sum is the same for each
// pixel, so that equal patches have equal responses.
__device__ inline void responses(float (&values)[4], const float (&patch)[4][4], const float (&filter)[kTaps],
                                 float bias) {
#pragma unroll
  for (int pixel = 0; pixel < 4; ++pixel) {
    values[pixel] = bias;
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      values[pixel] += filter[tap] * patch[pixel / 2 + tap / 3][pixel % 2 + tap % 3];
    }
  }
}

}  // namespace one_channel
