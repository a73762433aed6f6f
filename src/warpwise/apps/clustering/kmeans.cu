// Small steps of k-means between the passes over the points. PyTorch needs five launches for each step.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>

constexpr int kThreads = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

// centres: (count, width) = sums: (count, width) / counts: (count), or previous: (count, width) where the count is 0.
__global__ void __launch_bounds__(kThreads) means_of_sums(const float* sums, const int* counts, const float* previous,
                                                          float* centres, int count, int width) {
  const int at = blockIdx.x * kThreads + threadIdx.x;
  if (at >= count * width) return;
  const int number = counts[at / width];
  centres[at] = number > 0 ? sums[at] / static_cast<float>(number) : previous[at];
}

// labels: (rows) = the first index of the largest element of each row of q: (rows, domains), `pitch` elements apart.
template <class T>
__global__ void __launch_bounds__(kThreads) most_probable(const T* q, int* labels, int rows, int domains, int pitch) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= rows) return;
  const T* const from = q + static_cast<long long>(row) * pitch;
  float largest = warpwise::minus_infinity();
  int label = 0;
  constexpr int kPack = warpwise::Pack<T>::size;
  const bool vector = pitch % kPack == 0 && warpwise::aligned(q);
  for (int first = 0; first < domains; first += kPack) {
    warpwise::Pack<T> pack = {};
    if (vector) pack = *warpwise::packs(from + first);
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      if (first + e >= domains) continue;
      const float value = warpwise::to_float(vector ? pack.at[e] : from[first + e]);
      if (value > largest) {
        largest = value;
        label = first + e;
      }
    }
  }
  labels[row] = label;
}

struct First {
  float time;
  int index;
};

__device__ inline First earlier(First a, First b) {
  return b.time < a.time || (b.time == a.time && b.index < a.index) ? b : a;
}

// The earliest First of the block, in thread 0.
__device__ inline First block_first(First own) {
  __shared__ First of_warps[kThreads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    const First other = {__shfl_xor_sync(kAllLanes, own.time, distance),
                         __shfl_xor_sync(kAllLanes, own.index, distance)};
    own = earlier(own, other);
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kThreads / 32; ++warp) own = earlier(own, of_warps[warp]);
  }
  return own;
}

// near: (restarts, n) = the smaller of near and distances: (restarts, n). times and indices: (gridDim.x, restarts) =
// the smallest of draws: (restarts, n) / near of the block's points, and its point. draws of an exponential
// distribution make it point i with a probability in proportion to near_i. Grid: (any, restarts).
__global__ void __launch_bounds__(kThreads) race(float* near, const float* distances, const float* draws, float* times,
                                                 int* indices, int n, float least) {
  const long long row = static_cast<long long>(blockIdx.y) * n;
  First own = {-warpwise::minus_infinity(), n - 1};
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) {
    const float weight = fminf(near[row + i], distances[row + i]);
    near[row + i] = weight;
    own = earlier(own, {draws[row + i] / fmaxf(weight, least), i});
  }
  own = block_first(own);
  if (threadIdx.x > 0) return;
  times[blockIdx.x * gridDim.y + blockIdx.y] = own.time;
  indices[blockIdx.x * gridDim.y + blockIdx.y] = own.index;
}

// Row `place` of centres: (restarts, clusters, width) and latest: (restarts, width) = the row of x: (n, width) that
// wins the race of `rows` rows of times and indices: (rows, restarts). Grid: restarts.
__global__ void __launch_bounds__(kThreads) take_winner(const float* x, const float* times, const int* indices,
                                                        float* centres, float* latest, int rows, int clusters,
                                                        int width, int place) {
  __shared__ int winner;
  const int restart = blockIdx.x, restarts = gridDim.x;
  First own = {-warpwise::minus_infinity(), 0x7fffffff};
  for (int row = threadIdx.x; row < rows; row += kThreads) {
    own = earlier(own, {times[row * restarts + restart], indices[row * restarts + restart]});
  }
  own = block_first(own);
  if (threadIdx.x == 0) winner = own.index;
  __syncthreads();
  for (int d = threadIdx.x; d < width; d += kThreads) {
    const float value = x[static_cast<long long>(winner) * width + d];
    centres[(static_cast<long long>(restart) * clusters + place) * width + d] = value;
    latest[restart * width + d] = value;
  }
}
