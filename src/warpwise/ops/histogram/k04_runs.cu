// Equal adjacent elements are counted in a register first: one atomic per run, so flat areas cause less contention.
//
// If all values are equal, 16 bytes take one atomic instead of sixteen. Random bytes, of which 1 in 256 equals the
// next one, pay for the comparisons without a gain.

#include <warpwise/core/vector.cuh>

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// x: (n,); counts: (bins,), zero-initialised. Values outside [0, bins) are not counted.
// Shared: kWarps * (bins + 1) * 4 bytes. Any grid of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) histogram_runs(const T* x, long long* counts, long long n, int bins) {
  extern __shared__ unsigned warp_counts[];
  const int size = bins + 1;  // the last counter counts all values outside [0, bins), without a branch
  for (int i = threadIdx.x; i < kWarps * size; i += kThreads) warp_counts[i] = 0;
  __syncthreads();

  unsigned* own_counts = warp_counts + threadIdx.x / 32 * size;
  warpwise::for_each_pack(x, n, [=](const warpwise::Pack<T>& values, int count) {
    unsigned run = 0;  // length of the current run of equal elements
#pragma unroll
    for (int e = 0; e < values.size; ++e) {
      if (e >= count) continue;
      ++run;
      const bool ends = e + 1 == count || values.at[(e + 1) % values.size] != values.at[e];
      const unsigned bin = min(static_cast<unsigned>(values.at[e]), static_cast<unsigned>(bins));
      if (ends) atomicAdd(own_counts + bin, run);
      if (ends) run = 0;
    }
  });
  __syncthreads();

  for (int bin = threadIdx.x; bin < bins; bin += kThreads) {
    unsigned long long total = 0;
    for (int warp = 0; warp < kWarps; ++warp) total += warp_counts[warp * size + bin];
    if (total) atomicAdd(reinterpret_cast<unsigned long long*>(counts) + bin, total);
  }
}
