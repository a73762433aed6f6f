// 16-byte accesses along dimension 0, for any row size: several rows together form a line of whole 16-byte packs.
//
// The first launch computes the statistics of each element of a line in parts, (parts, line), which are (parts * fold,
// columns) to the second; the third one computes the result.

#include <warpwise/core/packed_columns.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "../columns.cuh"

constexpr int kThreads = 256, kValues = 4, kOrdered = 2;  // loads of a thread in flight; and of the last launch
using Statistics = warpwise::MaxAndSum::Value;

// partial: (parts, packs * Pack::size, 2), maximum and sum.
template <class T>
__global__ void __launch_bounds__(kThreads, 4) softmax_packed_statistics(const T* x, float* partial, long long elements,
                                                                         long long packs, int lines) {
  constexpr int kSize = warpwise::PackedColumns<T, kValues>::kSize;
  __shared__ Statistics scratch[kThreads * kSize];
  warpwise::PackedColumns<T, kValues> here(elements, packs, lines);
  Statistics own[kSize];
#pragma unroll
  for (int e = 0; e < kSize; ++e) own[e] = warpwise::MaxAndSum::identity();
  warpwise::wait_for_previous_kernel();
#pragma unroll 1
  for (int number = here.batches(), line = here.first; number > 0; --number, line += here.stride()) {
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

// partial: (rows, columns, 2); all: (fold, columns, 2), maximum and 1 / sum, for each row of a line. Block: (kLanes,
// kLanes). Grid: cdiv(columns, kLanes).
constexpr int kLanes = 32;
__global__ void __launch_bounds__(kLanes* kLanes) softmax_combine_statistics(const float* partial, float* all,
                                                                             int columns, int rows, int fold) {
  __shared__ Statistics scratch[kLanes][kLanes + 1];
  const int column = blockIdx.x * kLanes + threadIdx.x, line = threadIdx.y;
  warpwise::wait_for_previous_kernel();
  const Statistics* from =
      reinterpret_cast<const Statistics*>(partial) + static_cast<long long>(line) * columns + column;
  const int count = column < columns && line < rows ? warpwise::cdiv(rows - line, kLanes) : 0;
  scratch[line][threadIdx.x] = combined<MaxAndSumOf<float>>(from, count, static_cast<long long>(kLanes) * columns);
  __syncthreads();
  if (line != 0 || column >= columns) return;
  Statistics total = combined<MaxAndSumOf<float>>(&scratch[0][threadIdx.x], kLanes, kLanes + 1);
  total.sum = 1.0f / total.sum;
  for (int f = 0; f < fold; ++f)
    reinterpret_cast<Statistics*>(all)[static_cast<long long>(f) * columns + column] = total;
}

// all: (pitch of a line, 2). Block and grid: those of PacksInOrder.
template <class T>
__global__ void __launch_bounds__(kThreads, 5) softmax_from_packed_statistics(const T* x, const float* all, T* y,
                                                                              long long elements, int packs) {
  using Packs = warpwise::PacksInOrder<T, kThreads, kOrdered>;
  constexpr int kSize = Packs::kSize;
  const Packs here(elements, packs);
  typename Packs::Words words[kOrdered];
  warpwise::wait_for_previous_kernel();
  here.load(x, words);
#pragma unroll
  for (int v = 0; v < kOrdered; ++v) {
    warpwise::Pack<Statistics> own[kSize / 2];
#pragma unroll
    for (int s = 0; s < kSize / 2; ++s)
      own[s] = warpwise::packs(reinterpret_cast<const Statistics*>(all) + here.place(v))[s];
    typename Packs::Pack pack;
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      const Statistics of = own[e / 2].at[e % 2];
      pack.at[e] = warpwise::from_float<T>(warpwise::exponential<T>(here.element(words[v], e) - of.max) * of.sum);
    }
    words[v] = *reinterpret_cast<const typename Packs::Words*>(&pack);
  }
  here.store(y, words);
  if (const long long i = here.single(); i >= 0) {
    const Statistics of = reinterpret_cast<const Statistics*>(all)[here.place_of(i)];
    y[i] = warpwise::from_float<T>(warpwise::exponential<T>(warpwise::to_float(x[i]) - of.max) * of.sum);
  }
}
