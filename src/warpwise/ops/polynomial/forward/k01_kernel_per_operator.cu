// One kernel an operator, as eager PyTorch runs x * x + x + 1: intermediates go through memory, 7 passes for 2.
#include <warpwise/core/pack.cuh>

// x, out: (n,). Grid: ceil(n / blockDim.x). C is the type that is computed in: float for 2-byte inputs.
template <typename T, typename C>
__global__ void square(const T* x, C* out, long long n) {
  const long long i = warpwise::global_thread();
  if (i < n) out[i] = static_cast<C>(x[i]) * static_cast<C>(x[i]);
}

template <typename T, typename C>
__global__ void add(const C* a, const T* x, C* out, long long n) {
  const long long i = warpwise::global_thread();
  if (i < n) out[i] = a[i] + static_cast<C>(x[i]);
}

template <typename T, typename C>
__global__ void add_one(const C* a, T* out, long long n) {
  const long long i = warpwise::global_thread();
  if (i < n) out[i] = static_cast<T>(a[i] + C(1));
}
