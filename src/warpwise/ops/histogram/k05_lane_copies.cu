// A private histogram per lane, in the lane's own bank: no bank conflicts and no contention within a warp.
//
// Counter (bin, lane) is word bin * 32 + lane, so lane L always accesses bank L: each atomic of a warp is
// conflict-free, whether the values are equal or random. 256 bins take 32 KB; four blocks of 512 threads fill an SM.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/vector.cuh>

constexpr int kThreads = 512;
constexpr int kLanes = 32;

// counts: (bins,). Any grid with at least one thread per bin.
__global__ void __launch_bounds__(kThreads) clear_counts(long long* counts, int bins) {
  const int bin = blockIdx.x * kThreads + threadIdx.x;
  warpwise::wait_for_previous_kernel();
  if (bin < bins) counts[bin] = 0;
}

// x: (n,); counts: (bins,), zero-initialised unless there is one block. Values outside [0, bins) are not counted.
// Shared: (bins + 1) * kLanes * 4 bytes. Any grid of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) histogram_lane_copies(const T* x, long long* counts, long long n,
                                                                  int bins) {
  extern __shared__ unsigned lane_counts[];
  // The last counter counts all values outside [0, bins), without a branch.
  for (int i = threadIdx.x; i < (bins + 1) * kLanes; i += kThreads) lane_counts[i] = 0;
  __syncthreads();
  warpwise::wait_for_previous_kernel();

  unsigned* own_counts = lane_counts + threadIdx.x % kLanes;
  warpwise::for_each_pack(x, n, [=](const warpwise::Pack<T>& values, int count) {
#pragma unroll
    for (int e = 0; e < values.size; ++e) {
      const unsigned bin = min(static_cast<unsigned>(values.at[e]), static_cast<unsigned>(bins));
      if (e < count) atomicAdd(own_counts + bin * kLanes, 1u);
    }
  });
  __syncthreads();

  // A thread sums one bin, starting at its own lane, so that the 32 threads of a warp read 32 banks.
  for (int bin = threadIdx.x; bin < bins; bin += kThreads) {
    unsigned long long total = 0;
    for (int lane = 0; lane < kLanes; ++lane) total += lane_counts[bin * kLanes + (bin + lane) % kLanes];
    auto* const count = reinterpret_cast<unsigned long long*>(counts) + bin;
    if (gridDim.x == 1) {
      *count = total;
    } else if (total) {
      atomicAdd(count, total);
    }
  }
}
