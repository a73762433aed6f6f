// One thread adds one element, the start: neighbours read neighbouring addresses, so a warp's load is 4 sectors.
#include <warpwise/core/pack.cuh>

// a, b, out: (n,). Grid: ceil(n / blockDim.x).
template <typename T>
__global__ void vector_add(const T* a, const T* b, T* out, long long n) {
  using C = warpwise::Compute<T>;
  const long long i = warpwise::global_thread();
  if (i < n) out[i] = static_cast<T>(static_cast<C>(a[i]) + static_cast<C>(b[i]));
}
