// A grid that just fills the chip walks over the elements, for any n with one launch configuration.
#include <warpwise/core/pack.cuh>

// x, out: (n,). Any grid.
template <typename T>
__global__ void square(const T* x, T* out, long long n) {
  using C = warpwise::Compute<T>;
  for (long long i = warpwise::global_thread(); i < n; i += warpwise::global_threads()) {
    const C value = static_cast<C>(x[i]);
    out[i] = static_cast<T>(value * value);
  }
}
