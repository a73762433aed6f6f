// Equal neighbours are counted in a register first: one atomic a run, so flat areas do not queue for one counter.
//
// With one value throughout, 16 bytes cost one atomic instead of sixteen. Random bytes, of which 1 in 256 equals its
// neighbour, pay for the comparisons and gain nothing.

#include <warpwise/core/vector.cuh>

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// x: (n,); counts: (bins,), zero before. Values outside [0, bins) are not counted.
// Shared: kWarps * (bins + 1) * 4 bytes. Any grid of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) histogram_runs(const T* x, long long* counts, long long n, int bins) {
  extern __shared__ unsigned of_warps[];
  const int size = bins + 1;  // of a copy: the last counter takes every value that is no bin's, without a branch
  for (int i = threadIdx.x; i < kWarps * size; i += kThreads) of_warps[i] = 0;
  __syncthreads();

  unsigned* mine = of_warps + threadIdx.x / 32 * size;
  warpwise::for_each_pack(x, n, [=](const warpwise::Pack<T>& values, int count) {
    unsigned run = 0;  // elements equal to the one before
#pragma unroll
    for (int e = 0; e < values.size; ++e) {
      if (e >= count) continue;
      ++run;
      const bool ends = e + 1 == count || values.at[(e + 1) % values.size] != values.at[e];
      const unsigned bin = min(static_cast<unsigned>(values.at[e]), static_cast<unsigned>(bins));
      if (ends) atomicAdd(mine + bin, run);
      if (ends) run = 0;
    }
  });
  __syncthreads();

  for (int bin = threadIdx.x; bin < bins; bin += kThreads) {
    unsigned long long total = 0;
    for (int warp = 0; warp < kWarps; ++warp) total += of_warps[warp * size + bin];
    if (total) atomicAdd(reinterpret_cast<unsigned long long*>(counts) + bin, total);
  }
}
