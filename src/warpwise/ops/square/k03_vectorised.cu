// 16-byte accesses: a quarter of the instructions for float, an eighth for half, and more bytes in flight.
#include <warpwise/core/pack.cuh>

// x, out: (n,). A thread computes one pack; the threads after the last pack compute the last n % Pack::size elements at
// the same time, or all n if a pointer is not 16-byte aligned. Grid: at least n / Pack::size + n % Pack::size threads.
template <typename T>
__global__ void square(const T* x, T* out, long long n) {
  using C = warpwise::Compute<T>;
  using Pack = warpwise::Pack<T>;
  const long long i = warpwise::global_thread();
  const long long packs = warpwise::aligned(x, out) ? n / Pack::size : 0;
  if (i < packs) {
    Pack pack = warpwise::packs(x)[i];
#pragma unroll
    for (int k = 0; k < Pack::size; ++k) {
      const C value = static_cast<C>(pack.at[k]);
      pack.at[k] = static_cast<T>(value * value);
    }
    warpwise::packs(out)[i] = pack;
    return;
  }
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long at = packs * Pack::size + i - packs; at < n; at += warpwise::global_threads() - packs) {
    const C value = static_cast<C>(x[at]);
    out[at] = static_cast<T>(value * value);
  }
}
