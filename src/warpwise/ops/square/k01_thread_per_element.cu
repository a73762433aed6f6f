// One thread squares one element: the start, coalesced, with one 4-byte load in flight a thread.
#include <warpwise/core/pack.cuh>

// x, out: (n,). Grid: ceil(n / blockDim.x).
template <typename T>
__global__ void square(const T* x, T* out, long long n) {
  using C = warpwise::Compute<T>;
  const long long i = warpwise::global_thread();
  if (i < n) out[i] = static_cast<T>(static_cast<C>(x[i]) * static_cast<C>(x[i]));
}
