// Fused, with 16-byte accesses: fewer instructions and more bytes in flight.
#include "../polynomial.cuh"

// x, out: (n,). The last n % Pack::size elements, or all if a pointer is not 16-byte aligned, are accessed one by one.
template <typename T>
__global__ void polynomial(const T* x, T* out, long long n) {
  using Pack = warpwise::Pack<T>;
  const long long thread = warpwise::global_thread();
  const long long threads = warpwise::global_threads();
  const long long packs = warpwise::aligned(x, out) ? n / Pack::size : 0;
  for (long long i = thread; i < packs; i += threads) {
    Pack pack = warpwise::packs(x)[i];
#pragma unroll
    for (int k = 0; k < Pack::size; ++k) pack.at[k] = value(pack.at[k]);
    warpwise::packs(out)[i] = pack;
  }
  for (long long i = packs * Pack::size + thread; i < n; i += threads) out[i] = value(x[i]);
}
