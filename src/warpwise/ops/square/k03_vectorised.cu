// 16 bytes an access: a quarter of the instructions for float, an eighth for half, and more bytes in flight.
#include <warpwise/core/pack.cuh>

// x, out: (n,). The last n % Pack::size elements, or all if a pointer is not 16-byte aligned, go one by one.
template <typename T>
__global__ void square(const T* x, T* out, long long n) {
  using C = warpwise::Compute<T>;
  using Pack = warpwise::Pack<T>;
  const long long thread = warpwise::global_thread();
  const long long threads = warpwise::global_threads();
  const long long packs = warpwise::aligned(x, out) ? n / Pack::size : 0;
  for (long long i = thread; i < packs; i += threads) {
    Pack pack = warpwise::packs(x)[i];
#pragma unroll
    for (int k = 0; k < Pack::size; ++k) {
      const C value = static_cast<C>(pack.at[k]);
      pack.at[k] = static_cast<T>(value * value);
    }
    warpwise::packs(out)[i] = pack;
  }
  for (long long i = packs * Pack::size + thread; i < n; i += threads) {
    const C value = static_cast<C>(x[i]);
    out[i] = static_cast<T>(value * value);
  }
}
