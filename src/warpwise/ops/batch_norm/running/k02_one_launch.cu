// Four layers in one launch: grid.y is the layer. A layer of a small network has a few dozen channels.
//
// The layer is chosen by comparisons, which are uniform over the block; an array of pointers would be indexed in local
// memory.

#include <warpwise/core/previous_kernel.cuh>

// running_mean = (1 - momentum) running_mean + momentum (mean + bias); running_var likewise with correction var. Those
// of layer i are rm, rv, mean, var and bias, (channels), bias or null; batches: one element, which grows by 1. Grid:
// (cdiv(largest number of channels, blockDim.x), layers).
__global__ void running_statistics(float* rm0, float* rm1, float* rm2, float* rm3, float* rv0, float* rv1, float* rv2,
                                   float* rv3, long long* batches0, long long* batches1, long long* batches2,
                                   long long* batches3, const float* mean0, const float* mean1, const float* mean2,
                                   const float* mean3, const float* var0, const float* var1, const float* var2,
                                   const float* var3, const float* bias0, const float* bias1, const float* bias2,
                                   const float* bias3, int channels0, int channels1, int channels2, int channels3,
                                   float momentum0, float momentum1, float momentum2, float momentum3,
                                   float correction0, float correction1, float correction2, float correction3) {
  float *running_mean = rm0, *running_var = rv0;
  long long* batches = batches0;
  const float *mean = mean0, *var = var0, *bias = bias0;
  int channels = channels0;
  float momentum = momentum0, correction = correction0;
  const auto choose = [&](int layer, float* rm, float* rv, long long* counter, const float* of_mean,
                          const float* of_var, const float* of_bias, int count, float factor, float corrected) {
    if (blockIdx.y != layer) return;
    running_mean = rm, running_var = rv, batches = counter, mean = of_mean, var = of_var, bias = of_bias;
    channels = count, momentum = factor, correction = corrected;
  };
  choose(1, rm1, rv1, batches1, mean1, var1, bias1, channels1, momentum1, correction1);
  choose(2, rm2, rv2, batches2, mean2, var2, bias2, channels2, momentum2, correction2);
  choose(3, rm3, rv3, batches3, mean3, var3, bias3, channels3, momentum3, correction3);
  warpwise::wait_for_previous_kernel();
  const int channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel == 0) ++*batches;
  if (channel >= channels) return;
  const float kept = 1.0f - momentum, new_mean = mean[channel] + (bias ? bias[channel] : 0.0f);
  running_mean[channel] = kept * running_mean[channel] + momentum * new_mean;
  running_var[channel] = kept * running_var[channel] + momentum * correction * var[channel];
}
