// One atomic in global memory per element: all threads of the GPU contend for 256 counters in L2.
//
// L2 executes about one atomic per clock on one address, so skewed inputs are slower still: if all values are equal,
// 2^26 atomics are serialised on one address.

// x: (n,); counts: (bins,), zero-initialised. Values outside [0, bins) are not counted. Grid: cdiv(n, block) blocks of
// any size.
template <class T>
__global__ void histogram_global_atomics(const T* x, long long* counts, long long n, int bins) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned value = static_cast<unsigned>(x[i]);  // a negative value becomes one above every bin
  if (value < static_cast<unsigned>(bins)) atomicAdd(reinterpret_cast<unsigned long long*>(counts) + value, 1ull);
}
