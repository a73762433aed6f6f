// 3 x 3 convolutions with padding 1 on tensor cores with float32 accuracy, from tiles in shared memory: an implicit
// GEMM whose rows are filters, whose columns are pixels, and whose K dimension is (tap, plane).
//
// 3xTF32: x = big + small, where big is x rounded to TF32 and small = x - big. x y is computed as big small' + small
// big' + big big'; small small' is below 2^-22 |x y| and omitted. Tensor cores round sums toward zero, so mma.sync sums
// at most 48 products, which are added to float32 registers with rounding to nearest. The parts of large numbers,
// infinities and NaN overflow or give NaN: a block in which a value is not below kOrdinary in magnitude multiplies in
// float32. TF32 numbers are multiples of 2^-136, so a product with |x| below 2^-112 has an error of up to 2^-137 |y|.
//
// Planes in shared memory are interleaved in quads: element (plane, position) is at plane / 4 * pitch + 4 position +
// plane % 4, with position = row * stride + column and stride = w + 2. A 16-byte load reads four planes, the K indices
// of two steps of mma.sync: lane t has planes 4 t and 4 t + 1 in the first step, 4 t + 2 and 4 t + 3 in the second.
// Quads are 8 mod 32 floats apart, so the loads of eight adjacent pixels have no bank conflicts.
#pragma once

#include <warpwise/core/pack.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/sm80/mma.cuh>
#include <warpwise/sm80/tf32.cuh>

namespace warpwise {

constexpr int kMmaPlanes = 16, kMmaQuads = kMmaPlanes / 4;  // per chunk of K
constexpr int kMmaTaps = 9, kMmaSteps = 2;                  // steps of K per tap
constexpr float kOrdinary = 18014398509481984.0f;           // 2^54: sums of 2^18 products are finite

__device__ inline bool is_ordinary(float value) { return fabsf(value) < kOrdinary; }

// A band: `rows` rows of an image from row `top` on, with a border of one pixel. `copied` pixels of the image, from row
// `first` on, are in shared memory, the first of them at position `shift`.
struct MmaBand {
  int h, w, rows, top, stride, pitch, pixels, first, copied, shift;

  __device__ MmaBand(int band, int rows_, int h_, int w_) : h(h_), w(w_), rows(rows_) {
    top = band * rows;
    stride = w + 2;
    const int floats = 4 * (rows + 2) * stride + 4;
    pitch = floats + (40 - floats % 32) % 32;
    pixels = min(rows, h - top) * w;
    first = max(top - 1, 0);
    copied = (min(top + rows + 1, h) - first) * w;
    shift = (first - top + 1) * stride + 1;
  }
  __device__ int entries() const { return (rows + 2) * w; }
  __device__ int tap(int index) const { return 4 * (index / 3 * stride + index % 3); }

  // at: (entries()) = the offset of pixel i of consecutive rows, relative to that of the first pixel.
  template <int THREADS>
  __device__ void fill_offsets(int* at) const {
    for (int i = threadIdx.x; i < entries(); i += THREADS) at[i] = 4 * (i / w * stride + i % w);
  }
};

template <int THREADS>
__device__ inline void mma_zero(float* shared, int floats) {
  for (int i = threadIdx.x * 4; i < floats; i += THREADS * 4) *packs(shared + i) = Pack<float>{};
}

// Copies a chunk of `planes` planes of x: (planes, h, w) with cp.async; the chunk's other planes are zeros.
template <int THREADS>
__device__ inline void mma_copy_planes(float* to, const float* x, int planes, const MmaBand& band, const int* at) {
  const int q = threadIdx.x % 4, size = band.h * band.w;
  const float* const from = x + (q < planes ? q * size : 0) + band.first * band.w;
#pragma unroll 2
  for (int i = threadIdx.x / 4; i < band.copied; i += THREADS / 4) {
    const unsigned target = shared_address(to + 4 * band.shift + at[i] + q);
#pragma unroll
    for (int quad = 0; quad < kMmaQuads; ++quad) {
      const bool valid = 4 * quad + q < planes;
      mma::cp_async<4>(target + 4 * quad * band.pitch, from + (valid ? 4 * quad * size : 0) + i, valid);
    }
  }
}

// Copies chunks of planes of x: (n, c, h, w) to the two buffers of kMmaQuads * pitch floats at `planes`. Each copy is a
// group of cp.async, which is empty if there is no such image.
template <int THREADS>
struct MmaChunkCopy {
  float* planes;
  const float* x;
  int n, c;
  const MmaBand& band;
  const int* offsets;

  __device__ void operator()(int image, int chunk, int buffer) const {
    const int start = chunk * kMmaPlanes;
    if (image < n) {
      mma_copy_planes<THREADS>(planes + buffer * (kMmaQuads * band.pitch),
                               x + (static_cast<long long>(image) * c + start) * band.h * band.w,
                               min(kMmaPlanes, c - start), band, offsets);
    }
    __pipeline_commit();
  }
};

// Returns false if an element that this thread copied in mma_copy_planes is not ordinary.
template <int THREADS>
__device__ inline bool mma_ordinary_planes(const float* planes, const MmaBand& band, const int* at) {
  bool ordinary = true;
#pragma unroll 2
  for (int i = threadIdx.x / 4; i < band.copied; i += THREADS / 4) {
    const float* const from = planes + 4 * band.shift + at[i] + threadIdx.x % 4;
#pragma unroll
    for (int quad = 0; quad < kMmaQuads; ++quad) ordinary = ordinary && is_ordinary(from[quad * band.pitch]);
  }
  return ordinary;
}

// The fragments of 16 * TILES rows of filters for a chunk of K: (tap, step, tile, lane, 4). Taps are 4 mod 32 floats
// apart, so that stores of adjacent taps have few bank conflicts.
template <int TILES>
struct MmaFilters {
  static constexpr int kTap = kMmaSteps * TILES * 128 + 4, kFloats = kMmaTaps * kTap;

  __device__ static int index(int row, int plane, int tap) {
    const int lane = row % 8 * 4 + plane / 4, element = row / 8 % 2 + 2 * (plane % 2);
    return tap * kTap + (plane / 2 % 2 * TILES + row / 16) * 128 + 4 * lane + element;
  }

  // Fills them from f: (k, c, 3, 3): rows are filters and planes channels. TRANSPOSED: rows are channels, planes
  // filters, and the taps are reversed. Returns false if an element is not ordinary.
  template <int THREADS, bool TRANSPOSED>
  __device__ static bool fill(float* to, const float* f, int first_filter, int first_channel, int k, int c) {
    return Loaded<THREADS, TRANSPOSED, 1>(f, first_filter, first_channel, k, c).store(to);
  }

  // The elements of CHUNKS adjacent chunks of rows, or of planes if TRANSPOSED, in registers, so that other loads can
  // be in flight at the same time. A warp loads every (THREADS / 32)-th filter.
  template <int THREADS, bool TRANSPOSED, int CHUNKS>
  struct Loaded {
    static constexpr int kFilters = TRANSPOSED ? kMmaPlanes : 16 * TILES;
    static constexpr int kChannels = TRANSPOSED ? 16 * TILES : kMmaPlanes;
    static constexpr int kLoads = (kChannels * kMmaTaps + kWarp - 1) / kWarp, kWarps = THREADS / kWarp;
    static constexpr int kEach = (CHUNKS * kFilters + kWarps - 1) / kWarps;
    float values[kEach][kLoads];

    __device__ Loaded(const float* f, int first_filter, int first_channel, int k, int c) {
#pragma unroll
      for (int each = 0; each < kEach; ++each) {
        const int i = threadIdx.x / kWarp + each * kWarps;
        const float* const from = f + (static_cast<long long>(first_filter + i) * c + first_channel) * kMmaTaps;
        const bool exists = i < CHUNKS * kFilters && first_filter + i < k;
        const int valid = exists ? min(kChannels, c - first_channel) * kMmaTaps : 0;
#pragma unroll
        for (int load = 0; load < kLoads; ++load) {
          const int e = load * kWarp + threadIdx.x % kWarp;
          values[each][load] = e < valid ? from[e] : 0.0f;
        }
      }
    }

    // to: (CHUNKS, kFloats). Returns false if an element is not ordinary.
    __device__ bool store(float* to) const {
      bool ordinary = true;
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        const int e = load * kWarp + threadIdx.x % kWarp, j = e / kMmaTaps, tap = e - j * kMmaTaps;
#pragma unroll
        for (int each = 0; each < kEach; ++each) {
          const int filter = threadIdx.x / kWarp + each * kWarps, i = filter % kFilters;
          if (j >= kChannels || filter >= CHUNKS * kFilters) continue;
          to[filter / kFilters * kFloats + (TRANSPOSED ? index(j, i, kMmaTaps - 1 - tap) : index(i, j, tap))] =
              values[each][load];
          ordinary = ordinary & is_ordinary(values[each][load]);
        }
      }
      return ordinary;
    }
  };
};

// Adds a tap's products to the sums of N adjacent n-tiles from FIRST on. `from`: the first plane of this lane at the
// tap. Products with small parts are added first, because a sum loses the least precision while it is small. N sums
// alternate, to hide the latency of mma.sync.
template <int FIRST, int N, int TILES, int COUNT>
__device__ inline void mma_add_pixels(float (&sums)[COUNT][TILES][4], const unsigned (&big)[kMmaSteps][TILES][4],
                                      const unsigned (&small)[kMmaSteps][TILES][4], const float* from,
                                      const int (&at)[COUNT]) {
  unsigned upper[N][4], lower[N][4];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const Pack<float> b = *packs(from + at[FIRST + i]);
#pragma unroll
    for (int e = 0; e < 4; ++e) split_tf32(b.at[e], upper[i][e], lower[i][e]);
  }
  float part[N][TILES][4] = {};
#pragma unroll
  for (int product = 0; product < 3; ++product) {
#pragma unroll
    for (int step = 0; step < kMmaSteps; ++step) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const unsigned (&b)[4] = product == 1 ? lower[i] : upper[i];
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
          const unsigned (&a)[4] = product == 0 ? small[step][tile] : big[step][tile];
          mma::mma_sync(part[i][tile], a, b[2 * step], b[2 * step + 1], 0.0f);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[FIRST + i][tile][e] += part[i][tile][e];
    }
  }
}

// The same for all n-tiles from FIRST on, without the last one unless `last`.
template <int FIRST, int TILES, int COUNT>
__device__ inline void mma_add_all_pixels(float (&sums)[COUNT][TILES][4], const unsigned (&big)[kMmaSteps][TILES][4],
                                          const unsigned (&small)[kMmaSteps][TILES][4], const float* from,
                                          const int (&at)[COUNT], bool last) {
  constexpr int kAtOnce = TILES == 1 ? 4 : 2, kLeft = COUNT - FIRST;  // four sums alternate
  if constexpr (kLeft > kAtOnce) {
    mma_add_pixels<FIRST, kAtOnce>(sums, big, small, from, at);
    mma_add_all_pixels<FIRST + kAtOnce>(sums, big, small, from, at, last);
  } else if (last) {
    mma_add_pixels<FIRST, kLeft>(sums, big, small, from, at);
  } else if constexpr (kLeft > 1) {
    mma_add_pixels<FIRST, kLeft - 1>(sums, big, small, from, at);
  }
}

// sums[j][tile] += filters times the pixels of n-tile j, for the first `count` n-tiles; at[j] is the offset of this
// lane's pixel in `planes`. A fragment's column is a pixel.
template <int TILES, int COUNT>
__device__ inline void mma_add_chunk(float (&sums)[COUNT][TILES][4], const float* filters, const float* planes,
                                     const int (&at)[COUNT], int count, const MmaBand& band) {
  const int lane = threadIdx.x % kWarp;
  filters += 4 * lane;
  planes += lane % 4 * band.pitch;
#pragma unroll 1
  for (int tap = 0; tap < kMmaTaps; ++tap) {
    unsigned big[kMmaSteps][TILES][4], small[kMmaSteps][TILES][4];
#pragma unroll
    for (int step = 0; step < kMmaSteps; ++step) {
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        const Pack<float> a = *packs(filters + (step * TILES + tile) * 128);
#pragma unroll
        for (int e = 0; e < 4; ++e) split_tf32(a.at[e], big[step][tile][e], small[step][tile][e]);
      }
    }
    filters += MmaFilters<TILES>::kTap;
    mma_add_all_pixels<0>(sums, big, small, planes + band.tap(tap), at, count == COUNT);
  }
}

// The pixels of a warp: n-tile j has the eight pixels from 8 (warp + WARPS j) on.
template <int WARPS, int COUNT>
struct MmaPixels {
  int at[COUNT], count;  // the offset of column lane / 4 of each n-tile

  __device__ MmaPixels(const int* offsets, int pixels) {
    const int warp = threadIdx.x / kWarp;
    count = max(0, ((pixels + 7) / 8 - warp + WARPS - 1) / WARPS);
#pragma unroll
    for (int j = 0; j < COUNT; ++j)
      at[j] = offsets[min(8 * (warp + WARPS * j) + static_cast<int>(threadIdx.x % kWarp) / 4, pixels - 1)];
  }
  // The pixel of sums[j][tile][0] and [2]; [1] and [3] belong to the next pixel.
  __device__ static int pixel(int j) {
    return 8 * (static_cast<int>(threadIdx.x) / kWarp + WARPS * j) + 2 * (threadIdx.x % 4);
  }
};

// The same sums in float32.
template <int WARPS, int TILES, int COUNT>
__device__ inline void mma_add_chunk_in_float(float (&sums)[COUNT][TILES][4], const float* filters, const float* planes,
                                              const int* offsets, const MmaBand& band) {
  const int row = threadIdx.x % kWarp / 4;
#pragma unroll 1
  for (int tap = 0; tap < kMmaTaps; ++tap) {
#pragma unroll 1
    for (int plane = 0; plane < kMmaPlanes; ++plane) {
      const float* const from = planes + plane / 4 * band.pitch + band.tap(tap) + plane % 4;
#pragma unroll
      for (int j = 0; j < COUNT; ++j) {
        const int pixel = MmaPixels<WARPS, COUNT>::pixel(j), last = band.pixels - 1;
        const float values[2] = {from[offsets[min(pixel, last)]], from[offsets[min(pixel + 1, last)]]};
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sums[j][tile][e] +=
                filters[MmaFilters<TILES>::index(16 * tile + e / 2 * 8 + row, plane, tap)] * values[e % 2];
          }
        }
      }
    }
  }
}

// Stores the sums to y: (planes, h, w) of an image; the rows of the fragments are planes.
template <int WARPS, int TILES, int COUNT>
__device__ inline void mma_store_planes(float* y, const float (&sums)[COUNT][TILES][4], int planes,
                                        const MmaBand& band) {
  const int size = band.h * band.w, start = band.top * band.w;
  const bool pairs = size % 2 == 0 && start % 2 == 0 && aligned<8>(static_cast<const float*>(y));
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int plane = 16 * tile + 8 * half + static_cast<int>(threadIdx.x) % kWarp / 4;
      if (plane >= planes) continue;
      float* const to = y + plane * size + start;
#pragma unroll
      for (int j = 0; j < COUNT; ++j) {
        const int pixel = MmaPixels<WARPS, COUNT>::pixel(j);
        const float first = sums[j][tile][2 * half], second = sums[j][tile][2 * half + 1];
        if (pairs && pixel + 1 < band.pixels) {
          *packs<8>(to + pixel) = Pack<float, 8>{{first, second}};
        } else {
          if (pixel < band.pixels) to[pixel] = first;
          if (pixel + 1 < band.pixels) to[pixel + 1] = second;
        }
      }
    }
  }
}

}  // namespace warpwise
