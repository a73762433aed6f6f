// A few lanes per row: adjacent lanes read adjacent classes, and maximum and sum need one pass instead of two.

#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;

// dx = (softmax(x) - one_hot(target)) * grad / count. x, dx: (rows, classes), target: (rows); grad, count: one element.
// Grid: cdiv(rows, kThreads / LANES) blocks.
template <int LANES>
__global__ void __launch_bounds__(kThreads) cross_entropy_backward(const float* grad, const float* x,
                                                                   const long long* target, const long long* count,
                                                                   float* dx, int rows, int classes,
                                                                   long long ignore_index) {
  using warpwise::MaxAndSum;
  const int lane = threadIdx.x % LANES;
  const long long row = static_cast<long long>(blockIdx.x) * (kThreads / LANES) + threadIdx.x / LANES;
  const bool inside = row < rows;
  const long long start = (inside ? row : 0) * classes;
  MaxAndSum::Value value = MaxAndSum::identity();
  for (int c = lane; inside && c < classes; c += LANES) value = MaxAndSum::with(value, x[start + c]);
  value = warpwise::warp_reduce<MaxAndSum, LANES>(value);
  if (!inside) return;
  const long long t = target[row];
  const float scale = t == ignore_index ? 0.0f : *grad / static_cast<float>(*count);
  const float inverse = 1.0f / value.sum;
  for (int c = lane; c < classes; c += LANES) {
    const float p = expf(x[start + c] - value.max) * inverse;
    dx[start + c] = (p - (c == t ? 1.0f : 0.0f)) * scale;
  }
}
