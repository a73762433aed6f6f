// One thread per row writes its loss, then one thread adds the rows: the definition and the baseline.

#include <warpwise/core/numeric.cuh>

// x: (rows, classes), target: (rows), losses: (rows). A target outside of the classes gives NaN, an ignored target 0.
__global__ void row_losses(const float* x, const long long* target, float* losses, int rows, int classes,
                           long long ignore_index) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += static_cast<long long>(row) * classes;
  float max = x[0];
  for (int c = 1; c < classes; ++c) max = fmaxf(max, x[c]);
  float sum = 0.0f;
  for (int c = 0; c < classes; ++c) sum += expf(x[c] - max);
  const long long t = target[row];
  const bool known = t >= 0 && t < classes;
  losses[row] = t == ignore_index ? 0.0f : known ? logf(sum) - (x[t] - max) : __int_as_float(0x7fffffff);
}

// loss = sum(losses) / count, count: the number of targets that are not ignored. One thread.
__global__ void mean_of_losses(const float* losses, const long long* target, float* loss, long long* count, int rows,
                               long long ignore_index) {
  float sum = 0.0f;
  int counted = 0;
  for (int row = 0; row < rows; ++row) {
    sum += losses[row];
    counted += target[row] != ignore_index;
  }
  *loss = sum / static_cast<float>(counted);
  *count = counted;
}
