// One atomic in global memory an element: 256 counters for everybody, and the whole chip queues for them.
//
// The L2 cache adds about once a clock to one address, so a skewed input is slower still: with one value throughout,
// 2^26 elements stand in one queue.

// x: (n,); counts: (bins,), zero before. Values outside [0, bins) are not counted. Grid: cdiv(n, block) blocks of any
// size.
template <class T>
__global__ void histogram_global_atomics(const T* x, long long* counts, long long n, int bins) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned value = static_cast<unsigned>(x[i]);  // a negative value becomes one above every bin
  if (value < static_cast<unsigned>(bins)) atomicAdd(reinterpret_cast<unsigned long long*>(counts) + value, 1ull);
}
