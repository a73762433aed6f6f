// The gradient recomputes 2x + 1 from the saved input by 16-byte accesses: two reads and one write, no other saved
// data.
#include "../polynomial.cuh"

// grad, x, out: (n,). A thread computes one pack; the threads after the last pack compute the last n % Pack::size
// elements at the same time, or all n if a pointer is not 16-byte aligned. Grid: at least n / Pack::size + n %
// Pack::size threads.
template <typename T>
__global__ void polynomial_backward(const T* grad, const T* x, T* out, long long n) {
  using Pack = warpwise::Pack<T>;
  const long long i = warpwise::global_thread();
  const long long packs = warpwise::aligned(grad, x, out) ? n / Pack::size : 0;
  if (i < packs) {
    const Pack upstream = warpwise::packs(grad)[i];
    Pack pack = warpwise::packs(x)[i];
#pragma unroll
    for (int k = 0; k < Pack::size; ++k) pack.at[k] = gradient(upstream.at[k], pack.at[k]);
    warpwise::packs(out)[i] = pack;
    return;
  }
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long at = packs * Pack::size + i - packs; at < n; at += warpwise::global_threads() - packs) {
    out[at] = gradient(grad[at], x[at]);
  }
}
