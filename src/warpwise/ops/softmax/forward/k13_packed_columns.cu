// 16-byte accesses along dimension 0, for any row size: several rows together form a line of whole 16-byte packs.
//
// The first launch divides the lines into parts, and computes the statistics of each element of a line: (parts, line).
// The second launch reads them as (parts * fold, columns), and combines those of each column. The third launch computes
// the result. If columns are FEW, there are two launches: the first one combines the rows of a line too, and each block
// of the last one combines the parts.

#include <warpwise/core/packed_columns.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "../few_columns.cuh"

constexpr int kThreads = 256;
constexpr int kValues = 4;   // loads of a thread in flight in the first launch
constexpr int kOrdered = 2;  // and in the last launch, unless columns are FEW
using Statistics = warpwise::MaxAndSum::Value;

// partial: (parts, packs * Pack::size, 2), maximum and sum; if FEW, (parts, columns, 2), and a line is one tile.
template <class T, bool FEW>
__global__ void __launch_bounds__(kThreads, 4) softmax_packed_statistics(const T* x, float* partial, long long elements,
                                                                         long long packs, int lines, int columns) {
  constexpr int kSize = warpwise::PackedColumns<T, kValues>::kSize;
  __shared__ __align__(16) Statistics scratch[kThreads * kSize];
  auto* const results = reinterpret_cast<Statistics*>(partial);
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
  if constexpr (FEW) {
#pragma unroll
    for (int e = 0; e < kSize; ++e) scratch[thread * kSize + e] = own[e];
    __syncthreads();
    const int rows = width * height * kSize / columns;
    const Statistics all = combined_rows<MaxAndSumOf<T>>(scratch, rows, columns, thread, width * height);
    if (thread < columns) results[blockIdx.y * columns + thread] = all;
    return;
  }
#pragma unroll
  for (int e = 0; e < kSize; ++e) scratch[e * width * height + thread] = own[e];
  __syncthreads();
  const long long first = static_cast<long long>(blockIdx.x) * width * kSize;
  for (int i = thread; i < width * kSize && first + i < here.pitch; i += width * height) {
    const Statistics* from = scratch + i % kSize * width * height + i / kSize;
    results[blockIdx.y * here.pitch + first + i] = combined<MaxAndSumOf<T>>(from, height, width);
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

// statistics: (pitch of a line, 2), or of FEW columns those of the first launch. Block and grid: those of PacksInOrder.
template <class T, bool FEW>
__global__ void __launch_bounds__(kThreads, FEW ? 3 : 5) softmax_from_packed_statistics(const T* x,
                                                                                        const float* statistics, T* y,
                                                                                        long long elements, int packs,
                                                                                        int columns, int parts) {
  constexpr int kAtOnce = FEW ? kValues : kOrdered;
  using Packs = warpwise::PacksInOrder<T, kThreads, kAtOnce>;
  constexpr int kSize = Packs::kSize;
  __shared__ __align__(16) Statistics of_line[FEW ? kLine : 1];
  Packs here(elements, packs);
  typename Packs::Words words[kAtOnce];
  warpwise::wait_for_previous_kernel();
  here.load(x, words);
  const auto* const from_launches = reinterpret_cast<const Statistics*>(statistics);
  const Statistics* const all = FEW ? of_line : from_launches;
  if constexpr (FEW) {
    Statistics total = combined_rows<MaxAndSumOf<float>>(from_launches, parts, columns, threadIdx.x, kThreads);
    total.sum = 1.0f / total.sum;
    for (int i = threadIdx.x; threadIdx.x < columns && i < packs * kSize; i += columns) of_line[i] = total;
    __syncthreads();
  }
#pragma unroll 1
  while (true) {
#pragma unroll
    for (int v = 0; v < kAtOnce; ++v) {
      warpwise::Pack<Statistics> own[kSize / 2];
#pragma unroll
      for (int s = 0; s < kSize / 2; ++s) own[s] = warpwise::packs(all + here.place(v))[s];
      typename Packs::Pack pack;
#pragma unroll
      for (int e = 0; e < kSize; ++e) {
        const Statistics of = own[e / 2].at[e % 2];
        pack.at[e] = warpwise::from_float<T>(warpwise::exponential<T>(here.element(words[v], e) - of.max) * of.sum);
      }
      words[v] = *reinterpret_cast<const typename Packs::Words*>(&pack);
    }
    here.store(y, words);
    if (!FEW || !here.next()) break;
    here.load(x, words);
  }
  if (const long long i = here.single(); i >= 0) {
    const Statistics of = all[here.place_of(i)];
    y[i] = warpwise::from_float<T>(warpwise::exponential<T>(warpwise::to_float(x[i]) - of.max) * of.sum);
  }
}
