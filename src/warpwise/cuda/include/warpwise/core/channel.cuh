// The elements of one channel of (n, channels, inner) in vectors, divided among blocks, and sums over them.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/words.cuh>
#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/reduce.cuh>

namespace warpwise {

constexpr int kChannelThreads = 256;

// VECTOR elements from one load of up to 16 bytes.
template <class T, int VECTOR>
using Elements = Pack<T, VECTOR* static_cast<int>(sizeof(T))>;

// Calls use(offset, load(offset)) for each vector of this channel that block `part` of `parts` takes; offset in
// elements. The loads of kBatch vectors are in flight together, also where `use` writes.
template <int VECTOR, int THREADS = kChannelThreads, class Load, class Use>
__device__ inline void for_each_vector(int channel, int part, int parts, int n, int channels, int inner, Load load,
                                       Use use) {
  constexpr int kBatch = 4;
  const int width = inner / VECTOR, count = n * width, step = parts * THREADS;
  for (int first = part * THREADS + threadIdx.x; first < count; first += kBatch * step) {
    long long offsets[kBatch];
    decltype(load(0ll)) loaded[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int v = first + b * step, image = v / width;
      offsets[b] = v < count ? (static_cast<long long>(image) * channels + channel) * inner +
                                   static_cast<long long>(v - image * width) * VECTOR
                             : -1;
      if (offsets[b] >= 0) loaded[b] = load(offsets[b]);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (offsets[b] >= 0) use(offsets[b], loaded[b]);
    }
  }
}

// The elements of a vector that belong to the channel: those from `from` up to `to`.
struct Inside {
  int from, to;
  __device__ bool operator()(int e) const { return e >= from && e < to; }
};

// The VECTOR elements of x: (total) from `offset` on. SHIFTED: those past the end are 0.
template <int VECTOR, bool SHIFTED, class T>
__device__ inline Words<T, sizeof(T) * VECTOR> read_words(const T* x, long long offset, long long total) {
  if (!SHIFTED || offset + VECTOR <= total) return words_at<sizeof(T) * VECTOR>(x + offset);
  Elements<T, VECTOR> values = {};
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) {
    if (offset + e < total) values.at[e] = x[offset + e];
  }
  return words_at<sizeof(T) * VECTOR>(values.at);
}

template <int VECTOR, bool SHIFTED, class T>
__device__ inline void store_vector(T* y, long long offset, Inside inside, const Elements<T, VECTOR>& values) {
  if (!SHIFTED || (inside.from <= 0 && inside.to >= VECTOR)) {
    *packs<sizeof(T) * VECTOR>(y + offset) = values;
    return;
  }
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) {
    if (inside(e)) y[offset + e] = values.at[e];
  }
}

// The same vectors in batches of BATCH, whose loads are in flight together: load(), then visit() and next(), or use(),
// as long as `more()`. Positions advance by additions: a division for each vector would be up to 40 % of the
// instructions. SHIFTED: inner is not a multiple of VECTOR, but offsets are; the first and the last vector of an image
// may also contain elements of other channels, for which inside() is false.
template <int VECTOR, bool SHIFTED, int BATCH, class Loaded, int THREADS = kChannelThreads>
struct VectorBatches {
  // The first vector of the batch, the number of vectors of the channel, and the distance of two vectors of a thread.
  int first, count, step;
  int column, width;       // the column of the next vector to load, and the number of vectors of an image
  int column_step, inner;  // step modulo width, and the number of elements of an image
  // Offset of the image of the next vector; what a step adds to it; and the distance of two images.
  long long start, image_step, stride;
  long long offsets[BATCH];
  int begins[BATCH];  // elements from each vector to the image, if SHIFTED
  Loaded loaded[BATCH];

  __device__ VectorBatches(int channel, int part, int parts, int n, int channels, int inner_) : inner(inner_) {
    width = max(1, SHIFTED ? (inner + 2 * VECTOR - 2) / VECTOR : inner / VECTOR);
    count = inner > 0 ? n * width : 0;
    step = parts * THREADS;
    stride = static_cast<long long>(channels) * inner;
    const int images = step / width;
    column_step = step - images * width;
    image_step = images * stride;
    begin(part * THREADS + threadIdx.x, channel);
  }
  // Makes `vector` the next vector to load.
  __device__ void begin(int vector, int channel) {
    const int image = vector / width;
    first = vector;
    column = vector - image * width;
    start = image * stride + static_cast<long long>(channel) * inner;
  }
  __device__ bool more() const { return first < count; }
  template <class Load>
  __device__ void load(Load load) {
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
      if constexpr (SHIFTED) {
        begins[b] = static_cast<int>(start & (VECTOR - 1)) - column * VECTOR;
        offsets[b] = start - begins[b];
      } else {
        offsets[b] = start + column * VECTOR;
      }
      if (first + b * step < count) loaded[b] = load(offsets[b]);
      start += image_step;
      column += column_step;
      if (column >= width) {
        column -= width;
        start += stride;
      }
    }
  }
  // use(offset, inside, loaded) for each vector of the batch.
  template <class Use>
  __device__ void visit(Use use) {
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
      const Inside inside = SHIFTED ? Inside{begins[b], begins[b] + inner} : Inside{0, VECTOR};
      if (first + b * step < count) use(offsets[b], inside, loaded[b]);
    }
  }
  // The next batch is the current one.
  __device__ void next() { first += BATCH * step; }
  template <class Use>
  __device__ void use(Use use) {
    visit(use);
    next();
  }
};

// The sums over a block of two values of its threads, for all of them. A kernel calls it once.
template <int THREADS = kChannelThreads>
__device__ inline void block_sums(float& first, float& second) {
  __shared__ Pack<float, 8> warp_sums[THREADS / kWarp];
  const int lane = threadIdx.x % kWarp;
  first = warp_reduce<Sum>(first);
  second = warp_reduce<Sum>(second);
  if (lane == 0) warp_sums[threadIdx.x / kWarp] = {{first, second}};
  __syncthreads();
  const Pack<float, 8> own = lane < THREADS / kWarp ? warp_sums[lane] : Pack<float, 8>{};
  first = warp_reduce<Sum>(own.at[0]);
  second = warp_reduce<Sum>(own.at[1]);
}

// The sums over `parts` parts of the channel blockIdx.y, for all threads; partials: (channels, parts, 2).
__device__ inline void add_channel_parts(const float* partials, int parts, float& first, float& second) {
  const float* const mine = partials + 2ll * blockIdx.y * parts;
  first = second = 0.0f;
  for (int part = threadIdx.x; part < parts; part += kChannelThreads) {
    const auto pair = *packs<8>(mine + 2 * part);
    first += pair.at[0];
    second += pair.at[1];
  }
  block_sums(first, second);
}

// Adds two sums over the blocks of a channel (gridDim.x blocks in x, channels in y). Returns true in the last block of
// the channel, in which all threads get the totals. partials: (channels, gridDim.x, 2); semaphores: (channels), 0
// before and after.
__device__ inline bool channel_sums(float& first, float& second, float* partials, int* semaphores) {
  __shared__ float warp_values[kWarp];
  first = block_reduce<Sum, kChannelThreads>(first, warp_values);
  second = block_reduce<Sum, kChannelThreads>(second, warp_values);
  if (gridDim.x == 1) return true;
  float* const mine = partials + 2ll * blockIdx.y * gridDim.x;
  if (threadIdx.x == 0) {
    mine[2 * blockIdx.x] = first;
    mine[2 * blockIdx.x + 1] = second;
  }
  if (!is_last_block(semaphores + blockIdx.y, gridDim.x)) return false;
  first = second = 0.0f;
  for (int part = threadIdx.x; part < gridDim.x; part += kChannelThreads) {
    first += __ldcg(mine + 2 * part);
    second += __ldcg(mine + 2 * part + 1);
  }
  first = block_reduce<Sum, kChannelThreads>(first, warp_values);
  second = block_reduce<Sum, kChannelThreads>(second, warp_values);
  return true;
}

}  // namespace warpwise
