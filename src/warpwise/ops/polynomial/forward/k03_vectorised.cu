// Fused, with 16-byte accesses: fewer instructions and more bytes in flight.
#include "../polynomial.cuh"

// x, out: (n,). A thread computes one pack; the threads after the last pack compute the last n % Pack::size elements at
// the same time, or all n if a pointer is not 16-byte aligned. Grid: at least n / Pack::size + n % Pack::size threads.
template <typename T>
__global__ void polynomial(const T* x, T* out, long long n) {
  using Pack = warpwise::Pack<T>;
  const long long i = warpwise::global_thread();
  const long long packs = warpwise::aligned(x, out) ? n / Pack::size : 0;
  if (i < packs) {
    Pack pack = warpwise::packs(x)[i];
#pragma unroll
    for (int k = 0; k < Pack::size; ++k) pack.at[k] = value(pack.at[k]);
    warpwise::packs(out)[i] = pack;
    return;
  }
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long at = packs * Pack::size + i - packs; at < n; at += warpwise::global_threads() - packs) {
    out[at] = value(x[at]);
  }
}
