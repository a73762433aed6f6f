// Few rows and at most 16 classes: one cluster, whose first block adds the losses of the other blocks from their shared
// memory. In k03, the last block waits for a fence, a semaphore and its reads of global memory.
//
// All loads of a warp are independent, so they take one round trip. A lane holds the logit of class lane / 2, and both
// reductions of the softmax take four shuffles.

#include "transposed_sum.cuh"

#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>

constexpr int kThreads = 512, kWarps = kThreads / warpwise::kWarp, kBlocks = 8;
constexpr int kClasses = 16;

// The reduction over classes of a value that two adjacent lanes hold.
template <class Operation>
__device__ inline float reduce_classes(float value) {
#pragma unroll
  for (int distance = 2; distance < warpwise::kWarp; distance *= 2)
    value = Operation::combine(value, __shfl_xor_sync(warpwise::kFullMask, value, distance));
  return value;
}

// x: (rows, features), w: (classes, features), b: (classes) or null, target: (rows), p: (rows, classes), its softmax;
// loss, count: one element. WIDTH: floats of a load, 4 if features is a multiple of 4 and x and w are aligned to 16
// bytes. A warp computes ROWS adjacent rows. Grid: one cluster, kBlocks * kWarps * ROWS rows.
template <int ROWS, int WIDTH>
__global__ void __launch_bounds__(kThreads) __cluster_dims__(8, 1, 1)
    linear_cross_entropy(const float* x, const float* w, const float* b, const long long* target, float* p, float* loss,
                         long long* count, int rows, int features, int classes, long long ignore_index) {
  warpwise::wait_for_previous_kernel();
  using Pack = warpwise::Pack<float, 4 * WIDTH>;
  __shared__ float warp_sums[2][kWarps];
  __shared__ __align__(16) float block_sums[4];
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  const int row = (blockIdx.x * kWarps + warp) * ROWS, c = lane / 2;
  float sum = 0.0f, counted = 0.0f;
  if (row < rows) {
    const float bias = b && c < classes ? b[c] : 0.0f;
    long long wanted[ROWS];
    float products[ROWS][kClasses] = {};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) wanted[r] = row + r < rows ? target[row + r] : ignore_index;
    for (int k = lane * WIDTH; k < features; k += warpwise::kWarp * WIDTH) {
      Pack of_x[ROWS], of_w[kClasses];  // rows and classes past the end are clamped to the last one
#pragma unroll
      for (int i = 0; i < kClasses; ++i)
        of_w[i] = *warpwise::packs<4 * WIDTH>(w + static_cast<long long>(min(i, classes - 1)) * features + k);
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
        of_x[r] = *warpwise::packs<4 * WIDTH>(x + static_cast<long long>(min(row + r, rows - 1)) * features + k);
#pragma unroll
      for (int i = 0; i < kClasses; ++i) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
          for (int e = 0; e < WIDTH; ++e) products[r][i] += of_x[r].at[e] * of_w[i].at[e];
        }
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const float product = warpwise::transposed_sum(products[r]);
      const float logit = c < classes ? product + bias : warpwise::minus_infinity();
      const float max = reduce_classes<warpwise::Max>(logit);
      const float power = c < classes ? expf(logit - max) : 0.0f;
      const float powers = reduce_classes<warpwise::Sum>(power);
      const bool known = wanted[r] >= 0 && wanted[r] < classes;
      const float chosen = __shfl_sync(warpwise::kFullMask, logit, known ? 2 * static_cast<int>(wanted[r]) : 0);
      if (row + r < rows && lane % 2 == 0 && c < classes)
        p[static_cast<long long>(row + r) * classes + c] = power / powers;
      if (wanted[r] == ignore_index) continue;
      sum += known ? logf(powers) - (chosen - max) : __int_as_float(0x7fffffff);
      counted += 1.0f;
    }
  }
  if (lane == 0) {
    warp_sums[0][warp] = sum;
    warp_sums[1][warp] = counted;
  }
  __syncthreads();
  if (warp == 0) {
    static_assert(kWarps == 16, "the two halves of a warp add the losses and the counts");
    float value = warp_sums[lane / kWarps][lane % kWarps];
    value = warpwise::warp_reduce<warpwise::Sum, kWarps>(value);
    if (lane % kWarps == 0) block_sums[lane / kWarps] = value;
    if (lane == 1) block_sums[2] = block_sums[3] = 0.0f;  // ld_shared_cluster_v4 reads four floats
  }
  warpwise::sm90::cluster_sync();
  if (blockIdx.x == 0 && warp == 0) {
    float values[4] = {};
    if (lane < kBlocks) warpwise::sm90::ld_shared_cluster_v4(values, warpwise::shared_address(block_sums), lane);
    sum = warpwise::warp_reduce<warpwise::Sum>(values[0]);
    counted = warpwise::warp_reduce<warpwise::Sum>(values[1]);
    if (lane == 0) {
      *loss = sum / counted;
      *count = static_cast<long long>(counted);
    }
  }
  warpwise::sm90::cluster_sync_relaxed();  // a block must not exit while the first may read its sums
}
