// The adjoint gathers what each pixel and its mirror images gave away, one axis a pass: no atomics are needed.
#include "../blur.cuh"

// What position p, inside or mirrored outside of an axis of n pixels `step` apart, gets: sum of w[k] * grad[p + radius
// - k].
template <typename Sum, typename T>
__device__ Sum gathered(const T* grad, long long step, int p, int n, const Sum* weights, int radius) {
  Sum sum = 0;
  for (int k = max(0, p + radius - (n - 1)); k <= min(2 * radius, p + radius); ++k) {
    sum += weights[k] * static_cast<Sum>(grad[(p + radius - k) * step]);
  }
  return sum;
}

// in, out: (planes, height, width), contiguous. Block (32, 8); grid z strides over planes. DOWN: along columns, else
// rows.
template <typename In, typename Out, typename Sum, bool DOWN>
__global__ void blur_backward(const In* in, Out* out, const Sum* weights, long long planes, int height, int width,
                              int radius) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const int n = DOWN ? height : width, j = DOWN ? y : x;
  for (long long plane = blockIdx.z; plane < planes; plane += gridDim.z) {
    const long long pixel = (plane * height + y) * width + x;
    const long long step = DOWN ? width : 1;
    const In* axis = in + pixel - j * step;
    Sum sum = gathered<Sum>(axis, step, j, n, weights, radius);
    // Outside, position -j showed pixel j, and 2 (n - 1) - j did; pixels further in than the radius were shown once.
    if (j > 0 && j <= radius) sum += gathered<Sum>(axis, step, -j, n, weights, radius);
    if (j < n - 1 && n - 1 - j <= radius) sum += gathered<Sum>(axis, step, 2 * (n - 1) - j, n, weights, radius);
    out[pixel] = static_cast<Out>(sum);
  }
}
