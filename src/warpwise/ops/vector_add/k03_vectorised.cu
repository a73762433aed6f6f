// 16-byte accesses: a quarter of the instructions for float, and four times the bytes in flight per thread.
#include <warpwise/core/pack.cuh>

// a, b, out: (n,). A thread computes one pack; the threads after the last pack compute the last n % Pack::size elements
// at the same time, or all n if a pointer is not 16-byte aligned. Grid: at least n / Pack::size + n % Pack::size
// threads.
template <typename T>
__global__ void vector_add(const T* a, const T* b, T* out, long long n) {
  using C = warpwise::Compute<T>;
  using Pack = warpwise::Pack<T>;
  const long long i = warpwise::global_thread();
  const long long packs = warpwise::aligned(a, b, out) ? n / Pack::size : 0;
  if (i < packs) {
    const Pack x = warpwise::packs(a)[i];
    const Pack y = warpwise::packs(b)[i];
    Pack sum;
#pragma unroll
    for (int k = 0; k < Pack::size; ++k) {
      sum.at[k] = static_cast<T>(static_cast<C>(x.at[k]) + static_cast<C>(y.at[k]));
    }
    warpwise::packs(out)[i] = sum;
    return;
  }
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long at = packs * Pack::size + i - packs; at < n; at += warpwise::global_threads() - packs) {
    out[at] = static_cast<T>(static_cast<C>(a[at]) + static_cast<C>(b[at]));
  }
}
