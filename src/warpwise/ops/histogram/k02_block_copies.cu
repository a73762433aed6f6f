// A private histogram per block in shared memory: atomics stay within the SM, with one addition per bin at the end.
//
// A shared-memory atomic makes no round trip to L2. The grid fits the GPU once and strides over the input, so a block
// adds its bins to global memory once. A block counts fewer than 2^32 elements, so its counters have 32 bits.

// x: (n,); counts: (bins,), zero-initialised. Values outside [0, bins) are not counted. Shared: bins * 4 bytes. Any
// grid and block.
template <class T>
__global__ void histogram_block_copies(const T* x, long long* counts, long long n, int bins) {
  extern __shared__ unsigned block_counts[];
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) block_counts[bin] = 0;
  __syncthreads();

  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const unsigned value = static_cast<unsigned>(x[i]);
    if (value < static_cast<unsigned>(bins)) atomicAdd(block_counts + value, 1u);
  }
  __syncthreads();

  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
    if (block_counts[bin]) atomicAdd(reinterpret_cast<unsigned long long*>(counts) + bin, block_counts[bin]);
  }
}
