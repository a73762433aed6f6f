// A grid that just fills the chip walks over the vector: blocks start once, and many elements share index set-up.
#include <warpwise/core/pack.cuh>

// a, b, out: (n,). Any grid; a warp's addresses stay consecutive because the step is the whole grid.
template <typename T>
__global__ void vector_add(const T* a, const T* b, T* out, long long n) {
  using C = warpwise::Compute<T>;
  for (long long i = warpwise::global_thread(); i < n; i += warpwise::global_threads()) {
    out[i] = static_cast<T>(static_cast<C>(a[i]) + static_cast<C>(b[i]));
  }
}
