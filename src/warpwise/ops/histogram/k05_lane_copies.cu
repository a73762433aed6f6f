// A copy for each lane, in the lane's own bank: no two lanes of a warp ever meet, whatever the values.
//
// Counter (bin, lane) lies at word bin * 32 + lane, so lane L always hits bank L: every atomic of a warp passes in one
// go, for one value throughout as for random ones. 256 bins take 32 KB; four blocks of 512 threads fill an SM.

#include <warpwise/core/vector.cuh>

constexpr int kThreads = 512;
constexpr int kLanes = 32;

// x: (n,); counts: (bins,), zero before. Values outside [0, bins) are not counted.
// Shared: (bins + 1) * kLanes * 4 bytes. Any grid of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) histogram_lane_copies(const T* x, long long* counts, long long n,
                                                                  int bins) {
  extern __shared__ unsigned of_lanes[];
  // One counter more than there are bins takes every other value, without a branch.
  for (int i = threadIdx.x; i < (bins + 1) * kLanes; i += kThreads) of_lanes[i] = 0;
  __syncthreads();

  unsigned* mine = of_lanes + threadIdx.x % kLanes;
  warpwise::for_each_pack(x, n, [=](const warpwise::Pack<T>& values, int count) {
#pragma unroll
    for (int e = 0; e < values.size; ++e) {
      const unsigned bin = min(static_cast<unsigned>(values.at[e]), static_cast<unsigned>(bins));
      if (e < count) atomicAdd(mine + bin * kLanes, 1u);
    }
  });
  __syncthreads();

  // A thread sums one bin, starting at its own lane, so that the 32 threads of a warp read 32 banks.
  for (int bin = threadIdx.x; bin < bins; bin += kThreads) {
    unsigned long long total = 0;
    for (int lane = 0; lane < kLanes; ++lane) total += of_lanes[bin * kLanes + (bin + lane) % kLanes];
    if (total) atomicAdd(reinterpret_cast<unsigned long long*>(counts) + bin, total);
  }
}
