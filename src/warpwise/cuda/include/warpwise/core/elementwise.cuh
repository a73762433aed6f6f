// Elementwise kernels with 16-byte accesses and independent loads, for arrays of any length.
#pragma once

#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>

namespace warpwise {

constexpr int kElementwiseBlock = 128;  // one wave of blocks is divided between the SMs more evenly than with 256

// Elements threadIdx.x, threadIdx.x + kElementwiseBlock, ... of from: (count,); zero past the end.
template <class T>
__device__ Pack<T> load_block_apart(const T* from, int count) {
  Pack<T> loaded = {};
#pragma unroll
  for (int k = 0; k < Pack<T>::size; ++k) {
    const int at = k * kElementwiseBlock + static_cast<int>(threadIdx.x);
    if (at < count) loaded.at[k] = from[at];
  }
  return loaded;
}

// out[i] = f(in[i]...) for i < n; in and out: (n,), types of one size. Block: kElementwiseBlock threads. Grid: cdiv(n,
// Pack<T>::size * kElementwiseBlock). A thread of a full block computes one pack. In a partial last block, and if a
// pointer is not 16-byte aligned, a thread computes as many elements, kElementwiseBlock apart. The branch is uniform
// over a block: a divergent warp would wait for memory twice.
template <class T, class F, class... In>
__device__ void elementwise(long long n, const F& f, T* out, const In*... in) {
  constexpr int kSize = Pack<T>::size, kElements = kSize * kElementwiseBlock;
  const long long first = static_cast<long long>(blockIdx.x) * kElements;
  const int count = static_cast<int>(n - first < kElements ? n - first : kElements);
  const auto compute = [&f](Pack<In>... values) {
    Pack<T> results;
#pragma unroll
    for (int k = 0; k < kSize; ++k) results.at[k] = f(values.at[k]...);
    return results;
  };
  wait_for_previous_kernel();
  if (count == kElements && aligned(out, in...)) {
    packs(out + first)[threadIdx.x] = compute(packs(in + first)[threadIdx.x]...);
    return;
  }
  const Pack<T> results = compute(load_block_apart(in + first, count)...);
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const int at = k * kElementwiseBlock + static_cast<int>(threadIdx.x);
    if (at < count) out[first + at] = results.at[k];
  }
}

// The same for large arrays: a thread computes one pack. Blocks are short, so a kernel with one input is limited by the
// time from a block's start to its first load. The warps after those of the last pack compute the remaining elements,
// or all n if a pointer is not aligned. Grid: at least one thread per pack, rounded up to warps, plus n % Pack::size
// threads.
template <class T, class F, class... In>
__device__ void elementwise_packs(long long n, const F& f, T* out, const In*... in) {
  constexpr int kSize = Pack<T>::size, kWarpThreads = 32;
  const long long i = global_thread();
  const long long whole = aligned(out, in...) ? n / kSize : 0;
  if (i < whole) {
    const auto compute = [&f](Pack<In>... values) {
      Pack<T> results;
#pragma unroll
      for (int k = 0; k < kSize; ++k) results.at[k] = f(values.at[k]...);
      return results;
    };
    packs(out)[i] = compute(packs(in)[i]...);
    return;
  }
  const long long start = (whole + kWarpThreads - 1) / kWarpThreads * kWarpThreads;
  if (i < start) return;
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long at = whole * kSize + i - start; at < n; at += global_threads() - start) out[at] = f(in[at]...);
}

}  // namespace warpwise
