// Elementwise kernels with 16-byte accesses and independent loads, for arrays of any length.
#pragma once

#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>

namespace warpwise {

constexpr int kElementwiseBlock = 256;  // with 128, kernels of programmatic dependent launch take 20 % longer

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
// over a block: a divergent warp would wait for memory twice. The wait for the previous kernel is inside of it, so that
// the compiler does not move the addresses behind the wait.
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
  if (count == kElements && aligned(out, in...)) {
    wait_for_previous_kernel();
    packs(out + first)[threadIdx.x] = compute(packs(in + first)[threadIdx.x]...);
    return;
  }
  wait_for_previous_kernel();
  const Pack<T> results = compute(load_block_apart(in + first, count)...);
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const int at = k * kElementwiseBlock + static_cast<int>(threadIdx.x);
    if (at < count) out[first + at] = results.at[k];
  }
}

}  // namespace warpwise
