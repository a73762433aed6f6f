// 16-byte accesses along dimension 0, for any row size: several rows together form a line of whole 16-byte packs.
//
// The first launch computes the statistics of each element of a line in parts, (parts, line), which are (parts * fold,
// columns) to the second; the third one computes the result.

#include <warpwise/core/packed_columns.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "../columns.cuh"

constexpr int kThreads = 256, kValues = 4;  // loads of a thread in flight
using Statistics = warpwise::MaxAndSum::Value;

// partial: (parts, packs * Pack::size, 2), maximum and sum.
template <class T>
__global__ void __launch_bounds__(kThreads, 4) softmax_packed_statistics(const T* x, float* partial, long long elements,
                                                                         long long packs, int lines, int share) {
  constexpr int kSize = warpwise::PackedColumns<T, kValues>::kSize;
  __shared__ Statistics scratch[kThreads * kSize];
  warpwise::PackedColumns<T, kValues> here(elements, packs, lines, share);
  Statistics own[kSize];
#pragma unroll
  for (int e = 0; e < kSize; ++e) own[e] = warpwise::MaxAndSum::identity();
  warpwise::wait_for_previous_kernel();
#pragma unroll 1
  for (int line = here.first; line < here.last; line += here.batch()) {
    typename warpwise::PackedColumns<T, kValues>::Words words[kValues];
    here.load(x, line, warpwise::minus_infinity(), words);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      float max = own[e].max;
#pragma unroll
      for (int v = 0; v < kValues; ++v) max = fmaxf(max, here.element(words[v], e));
      own[e] = {max, own[e].sum * warpwise::exponential<T>(own[e].max - base(max))};
#pragma unroll
      for (int v = 0; v < kValues; ++v) own[e].sum += warpwise::exponential<T>(here.element(words[v], e) - base(max));
    }
  }
  const int width = blockDim.x, height = blockDim.y, thread = threadIdx.y * width + threadIdx.x;
#pragma unroll
  for (int e = 0; e < kSize; ++e) scratch[e * width * height + thread] = own[e];
  __syncthreads();
  const long long first = static_cast<long long>(blockIdx.x) * width * kSize;
  for (int i = thread; i < width * kSize && first + i < here.pitch; i += width * height) {
    const Statistics* from = scratch + i % kSize * width * height + i / kSize;
    reinterpret_cast<Statistics*>(partial)[blockIdx.y * here.pitch + first + i] =
        combined<MaxAndSumOf<T>>(from, height, width);
  }
}

// partial: (rows, columns, 2); all: (columns, 2). Block: (kLanes, kLanes). Grid: cdiv(columns, kLanes).
constexpr int kLanes = 32;
__global__ void __launch_bounds__(kLanes* kLanes) softmax_combine_statistics(const float* partial, float* all,
                                                                             int columns, int rows) {
  __shared__ Statistics scratch[kLanes][kLanes + 1];
  const int column = blockIdx.x * kLanes + threadIdx.x, line = threadIdx.y;
  warpwise::wait_for_previous_kernel();
  const Statistics* from =
      reinterpret_cast<const Statistics*>(partial) + static_cast<long long>(line) * columns + column;
  const int count = column < columns && line < rows ? warpwise::cdiv(rows - line, kLanes) : 0;
  scratch[line][threadIdx.x] = combined<MaxAndSumOf<float>>(from, count, static_cast<long long>(kLanes) * columns);
  __syncthreads();
  if (line == 0 && column < columns)
    reinterpret_cast<Statistics*>(all)[column] =
        combined<MaxAndSumOf<float>>(&scratch[0][threadIdx.x], kLanes, kLanes + 1);
}

template <class T>
__global__ void __launch_bounds__(kThreads, 4) softmax_from_packed_statistics(const T* x, const float* all, T* y,
                                                                              long long elements, long long packs,
                                                                              int lines, int share, int columns) {
  using Tile = warpwise::PackedColumns<T, kValues>;
  constexpr int kSize = Tile::kSize;
  Tile here(elements, packs, lines, share);
  Statistics own[kSize];
  long long column = here.place % columns;
  warpwise::wait_for_previous_kernel();
#pragma unroll
  for (int e = 0; e < kSize; ++e, ++column) {
    while (column >= columns) column -= columns;
    own[e] = reinterpret_cast<const Statistics*>(all)[column];
    own[e].sum = 1.0f / own[e].sum;
  }
  // Backwards, because the batches that were read last are still in L2.
  const int batches = here.last > here.first ? (here.last - here.first + here.batch() - 1) / here.batch() : 0;
#pragma unroll 1
  for (int number = batches - 1; number >= 0; --number) {
    const int line = here.first + number * here.batch();
    typename Tile::Words words[kValues];
    here.load(x, line, 0.0f, words);
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      typename Tile::Pack pack;
#pragma unroll
      for (int e = 0; e < kSize; ++e)
        pack.at[e] =
            warpwise::from_float<T>(warpwise::exponential<T>(here.element(words[v], e) - own[e].max) * own[e].sum);
      words[v] = *reinterpret_cast<const typename Tile::Words*>(&pack);
    }
    here.store(y, line, words);
  }
}
