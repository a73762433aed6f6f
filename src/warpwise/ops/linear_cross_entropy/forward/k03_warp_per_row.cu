// A warp per row, or per few rows, one launch: the lanes divide the features, and 16 classes are summed at once.
//
// The 16 sums of a lane are added over the warp by an exchange of halves: 16 shuffles leave the sum of class l / 2 in
// lane l, where 16 separate reductions take 80. The softmax follows in registers, so the logits are neither written nor
// read for up to 16 classes. The last block adds the losses of the blocks, in a fixed order.

#include "transposed_sum.cuh"

#include <warpwise/core/mean_loss.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256, kWarps = kThreads / warpwise::kWarp;
constexpr int kGroup = 16;  // classes summed at once
constexpr int kLoads = 8;   // loads of w in flight

// x: (rows, features), w: (classes, features), b: (classes) or null, target: (rows), p: (rows, classes), its softmax;
// sums, counts: (gridDim.x) and semaphore, or null for one block; loss, count: one element. WIDTH: floats of a load, 4
// if features is a multiple of 4 and x and w are aligned to 16 bytes. Grid: cdiv(rows, kWarps * ROWS) blocks.
template <int ROWS, int WIDTH>
__global__ void __launch_bounds__(kThreads) linear_cross_entropy(const float* x, const float* w, const float* b,
                                                                 const long long* target, float* p, float* sums,
                                                                 float* counts, int* semaphore, float* loss,
                                                                 long long* count, int rows, int features, int classes,
                                                                 long long ignore_index) {
  warpwise::wait_for_previous_kernel();
  using warpwise::MaxAndSum;
  using Pack = warpwise::Pack<float, 4 * WIDTH>;
  __shared__ float warp_values[warpwise::kWarp];
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  const long long row = (static_cast<long long>(blockIdx.x) * kWarps + warp) * ROWS;
  MaxAndSum::Value value[ROWS];
  float logit[ROWS], chosen[ROWS];  // the logit of this lane's class of the last group; that of the target, or 0
  long long wanted[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    value[r] = MaxAndSum::identity();
    chosen[r] = 0.0f;
    wanted[r] = row + r < rows ? target[row + r] : ignore_index;
  }
  for (int first = 0; row < rows && first < classes; first += kGroup) {
    float products[ROWS][kGroup] = {};
    for (int k = lane * WIDTH; k < features; k += warpwise::kWarp * WIDTH) {
      Pack of_x[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const long long from = row + r < rows ? row + r : rows - 1;
        of_x[r] = *warpwise::packs<4 * WIDTH>(x + from * features + k);
      }
#pragma unroll
      for (int half = 0; half < kGroup; half += kLoads) {
        Pack of_w[kLoads];  // classes past the end are clamped to the last one
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          const long long c = min(first + half + i, classes - 1);
          of_w[i] = *warpwise::packs<4 * WIDTH>(w + c * features + k);
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
#pragma unroll
          for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int e = 0; e < WIDTH; ++e) products[r][half + i] += of_x[r].at[e] * of_w[i].at[e];
          }
        }
      }
    }
    const int c = first + lane / 2;
    const bool own = lane % 2 == 0 && c < classes;
    const float bias = own && b ? b[c] : 0.0f;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      logit[r] = warpwise::transposed_sum(products[r]) + bias;
      if (!own) continue;
      value[r] = MaxAndSum::with(value[r], logit[r]);
      if (c == wanted[r]) chosen[r] = logit[r];
      if (classes > kGroup && row + r < rows) p[(row + r) * classes + c] = logit[r];
    }
  }
  float sum = 0.0f, counted = 0.0f;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const float max = warpwise::warp_reduce<warpwise::Max>(value[r].max);  // then one rescaling of each lane's sum
    value[r] = {max, warpwise::warp_reduce<warpwise::Sum>(MaxAndSum::rescaled(value[r], max))};
    chosen[r] = warpwise::warp_reduce<warpwise::Sum>(chosen[r]);
    const float inverse = 1.0f / value[r].sum;
    if (row + r < rows && lane % 2 == 0) {
      float* const of_row = p + (row + r) * classes;
      for (int c = lane / 2; c < classes; c += kGroup) {
        const float from = classes > kGroup ? of_row[c] : logit[r];
        of_row[c] = expf(from - value[r].max) * inverse;
      }
    }
    if (lane == 0 && wanted[r] != ignore_index) {
      const bool known = wanted[r] >= 0 && wanted[r] < classes;
      sum += known ? logf(value[r].sum) - (chosen[r] - value[r].max) : __int_as_float(0x7fffffff);
      counted += 1.0f;
    }
  }
  warpwise::store_mean_loss<kThreads>(counted, sum, warp_values, sums, counts, semaphore, loss, count);
}
