// The loss and its gradients from one read of the rows: a warp keeps the softmax of a row for the row's gradient.
//
// The forward and the backward of linear_cross_entropy write and read the softmax, and a launch waits for it. Here a
// block computes d = (softmax - one_hot(target)) / count of its rows, d W, and its part of d^T x. A second launch adds
// the parts; nothing but the update of the parameters waits for it.

#include "../forward/transposed_sum.cuh"

#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

#include "add_parts.cuh"

constexpr int kClasses = 16, kMostRows = 64;                                             // of a block
constexpr int kColumns = 128, kGroups = kThreads / kColumns, kOwn = kClasses / kGroups;  // threads and classes of d^T x

// The reduction over classes of a value that two adjacent lanes hold.
template <class Operation>
__device__ inline float reduce_classes(float value) {
#pragma unroll
  for (int distance = 2; distance < warpwise::kWarp; distance *= 2)
    value = Operation::combine(value, __shfl_xor_sync(warpwise::kFullMask, value, distance));
  return value;
}

// 16 classes of w: (classes, features), WIDTH features each from k on; classes past the end are clamped to the last.
template <int WIDTH>
struct Weights {
  warpwise::Pack<float, 4 * WIDTH> at[kClasses];
  __device__ Weights(const float* w, int k, int features, int classes) {
#pragma unroll
    for (int i = 0; i < kClasses; ++i) at[i] = *warpwise::packs<4 * WIDTH>(w + min(i, classes - 1) * features + k);
  }
};

// x: (rows, features), w: (classes, features), b: (classes) or null, target: (rows); dx: (rows, features) or null;
// parts: (gridDim.x, classes, features + 1), of dw and db; losses: (gridDim.x + 1), the blocks' sums, then the number
// of rows that are not ignored. A block has `share` rows, at most kMostRows. WIDTH: floats of a load, 4 if features is
// a multiple of 4 and x, w and dx are aligned to 16 bytes. ONE: a warp loads a row at once.
template <bool ONE, int WIDTH>
__global__ void __launch_bounds__(kThreads) loss_and_gradients(const float* x, const float* w, const float* b,
                                                               const long long* target, float* dx, float* parts,
                                                               float* losses, int rows, int features, int classes,
                                                               int share, long long ignore_index) {
  warpwise::wait_for_previous_kernel();
  using Pack = warpwise::Pack<float, 4 * WIDTH>;
  constexpr int kStep = warpwise::kWarp * WIDTH;
  __shared__ float d[kMostRows][kClasses];
  __shared__ float warp_sums[2][kWarps];
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp, c = lane / 2;
  const int begin = blockIdx.x * share, end = min(rows, begin + share);
  const float bias = b && c < classes ? b[c] : 0.0f;
  // The loads of a warp's first row, all in flight at once.
  const int own_row = min(begin + warp, rows - 1), own_k = min(lane * WIDTH, features - WIDTH);
  const Weights<WIDTH> first(w, own_k, features, classes);
  const Pack first_x = *warpwise::packs<4 * WIDTH>(x + static_cast<long long>(own_row) * features + own_k);
  const long long first_target = target[own_row], one_of_all = target[min(static_cast<int>(threadIdx.x), rows - 1)];
  float counted = threadIdx.x < rows && one_of_all != ignore_index ? 1.0f : 0.0f, sum = 0.0f;
#pragma unroll 8
  for (int row = threadIdx.x + kThreads; row < rows; row += kThreads)
    counted += target[row] != ignore_index ? 1.0f : 0.0f;

  for (int row = begin + warp; row < end; row += kWarps) {
    const long long wanted = row == own_row ? first_target : target[row];
    float products[kClasses] = {};
    for (int k = lane * WIDTH; k < features; k += kStep) {
      Pack of_x = first_x;
      if (!ONE || row > own_row) of_x = *warpwise::packs<4 * WIDTH>(x + static_cast<long long>(row) * features + k);
      const Weights<WIDTH> of_w = ONE ? first : Weights<WIDTH>(w, k, features, classes);
#pragma unroll
      for (int i = 0; i < kClasses; ++i) {
#pragma unroll
        for (int e = 0; e < WIDTH; ++e) products[i] += of_x.at[e] * of_w.at[i].at[e];
      }
    }
    const float product = warpwise::transposed_sum(products);
    const float logit = c < classes ? product + bias : warpwise::minus_infinity();
    const float max = reduce_classes<warpwise::Max>(logit);
    const float power = c < classes ? expf(logit - max) : 0.0f;
    const float powers = reduce_classes<warpwise::Sum>(power);
    const bool known = wanted >= 0 && wanted < classes, counts = wanted != ignore_index;
    const float chosen = __shfl_sync(warpwise::kFullMask, logit, known ? 2 * static_cast<int>(wanted) : 0);
    if (counts) sum += known ? logf(powers) - (chosen - max) : __int_as_float(0x7fffffff);
    if (lane % 2 == 0) d[row - begin][c] = counts ? power / powers - (c == wanted ? 1.0f : 0.0f) : 0.0f;
  }
  counted = warpwise::warp_reduce<warpwise::Sum>(counted);
  if (lane == 0) {
    warp_sums[0][warp] = counted;
    warp_sums[1][warp] = sum;
  }
  __syncthreads();
  counted = sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    counted += warp_sums[0][i];
    sum += warp_sums[1][i];
  }
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = sum;
    if (blockIdx.x == 0) losses[gridDim.x] = counted;
  }
  const float scale = counted > 0.0f ? 1.0f / counted : 0.0f;  // d is 0 if all rows are ignored

  for (int row = begin + warp; dx && row < end; row += kWarps) {
    for (int k = lane * WIDTH; k < features; k += kStep) {
      const Weights<WIDTH> of_w = ONE ? first : Weights<WIDTH>(w, k, features, classes);
      Pack sums = {};
#pragma unroll
      for (int i = 0; i < kClasses; i += 4) {
        const auto of_d = *warpwise::packs(&d[row - begin][i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float factor = i + j < classes ? of_d.at[j] * scale : 0.0f;
#pragma unroll
          for (int e = 0; e < WIDTH; ++e) sums.at[e] += factor * of_w.at[i + j].at[e];
        }
      }
      *warpwise::packs<4 * WIDTH>(dx + static_cast<long long>(row) * features + k) = sums;
    }
  }

  const int own = threadIdx.x / kColumns * kOwn;  // the first class of this thread
  for (int column = threadIdx.x % kColumns; column <= features; column += kColumns) {
    float sums[kOwn] = {};
#pragma unroll 8
    for (int row = begin; row < end; ++row) {
      const float factor = column < features ? x[static_cast<long long>(row) * features + column] : 1.0f;
#pragma unroll
      for (int i = 0; i < kOwn; i += 4) {
        const auto of_d = *warpwise::packs(&d[row - begin][own + i]);
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i + e] += of_d.at[e] * factor;
      }
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (own + i >= classes) continue;
      parts[(static_cast<long long>(blockIdx.x) * classes + own + i) * (features + 1) + column] = sums[i] * scale;
    }
  }
}
