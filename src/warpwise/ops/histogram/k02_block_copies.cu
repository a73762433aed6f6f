// A private copy of the counters for each block, in shared memory: atomics stay inside the SM until one sum at the end.
//
// A shared atomic has no way to the L2 cache and back. A resident grid walks over the input, so the bins of a block go
// to global memory once for its whole share. A block's share stays below 2^32 elements, so 32 bits count it.

// x: (n,); counts: (bins,), zero before. Values outside [0, bins) are not counted. Shared: bins * 4 bytes. Any grid and
// block.
template <class T>
__global__ void histogram_block_copies(const T* x, long long* counts, long long n, int bins) {
  extern __shared__ unsigned of_block[];
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) of_block[bin] = 0;
  __syncthreads();

  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const unsigned value = static_cast<unsigned>(x[i]);
    if (value < static_cast<unsigned>(bins)) atomicAdd(of_block + value, 1u);
  }
  __syncthreads();

  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
    if (of_block[bin]) atomicAdd(reinterpret_cast<unsigned long long*>(counts) + bin, of_block[bin]);
  }
}
