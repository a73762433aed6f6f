// One kernel per operator, as eager PyTorch computes x * x + x + 1: 7 passes over memory where 2 suffice.
#include <warpwise/core/pack.cuh>

// x, out: (n,). Grid: ceil(n / blockDim.x). C is the compute type: float for 2-byte inputs.
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
