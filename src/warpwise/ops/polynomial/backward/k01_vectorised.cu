// The gradient recomputes 2x + 1 from the saved input by 16-byte accesses: two reads and one write, no other saved
// data.
#include "../polynomial.cuh"

// grad, x, out: (n,). The last n % Pack::size elements, or all if a pointer is not 16-byte aligned, are accessed one by
// one.
template <typename T>
__global__ void polynomial_backward(const T* grad, const T* x, T* out, long long n) {
  using Pack = warpwise::Pack<T>;
  const long long thread = warpwise::global_thread();
  const long long threads = warpwise::global_threads();
  const long long packs = warpwise::aligned(grad, x, out) ? n / Pack::size : 0;
  for (long long i = thread; i < packs; i += threads) {
    const Pack upstream = warpwise::packs(grad)[i];
    Pack pack = warpwise::packs(x)[i];
#pragma unroll
    for (int k = 0; k < Pack::size; ++k) pack.at[k] = gradient(upstream.at[k], pack.at[k]);
    warpwise::packs(out)[i] = pack;
  }
  for (long long i = packs * Pack::size + thread; i < n; i += threads) out[i] = gradient(grad[i], x[i]);
}
