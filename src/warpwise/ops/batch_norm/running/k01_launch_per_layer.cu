// Both statistics and the number of batches of a layer in one launch (PyTorch takes five): one thread per channel.

// running_mean = (1 - momentum) running_mean + momentum (mean + bias); running_var likewise with correction var. All
// (channels), bias or null; batches: one element, incremented by 1.
__global__ void running_statistics(float* running_mean, float* running_var, long long* batches, const float* mean,
                                   const float* var, const float* bias, int channels, float momentum,
                                   float correction) {
  const int channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel == 0) ++*batches;
  if (channel >= channels) return;
  const float kept = 1.0f - momentum, new_mean = mean[channel] + (bias ? bias[channel] : 0.0f);
  running_mean[channel] = kept * running_mean[channel] + momentum * new_mean;
  running_var[channel] = kept * running_var[channel] + momentum * correction * var[channel];
}
