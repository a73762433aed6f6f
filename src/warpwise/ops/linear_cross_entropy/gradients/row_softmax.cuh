// A row of logits in a warp: 16 classes, of which two adjacent lanes hold one.
#pragma once

#include <warpwise/core/pack.cuh>
#include <warpwise/core/reduce.cuh>

#include "../forward/transposed_sum.cuh"

constexpr int kClasses = 16;

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

// The softmax of a row from its products with 16 classes, of which each lane has a part, and the bias of class `c`,
// that of the lane; classes past the end are 0.
struct RowSoftmax {
  float logit, max, power, powers;
  __device__ RowSoftmax(const float (&products)[kClasses], float bias, int c, int classes) {
    const float product = warpwise::transposed_sum(products);
    logit = c < classes ? product + bias : warpwise::minus_infinity();
    max = reduce_classes<warpwise::Max>(logit);
    power = c < classes ? expf(logit - max) : 0.0f;
    powers = reduce_classes<warpwise::Sum>(power);
  }
  // Of the loss of this row, not divided by the number of rows.
  __device__ float gradient(int c, long long target) const { return power / powers - (c == target ? 1.0f : 0.0f); }
};
