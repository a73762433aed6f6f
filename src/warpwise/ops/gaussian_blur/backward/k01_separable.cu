// The adjoint as a gather: each pixel sums the gradients of the outputs it contributed to, one axis per pass, no
// atomics.
#include "../blur.cuh"

// The gradient of position p, which may lie outside of an axis of n pixels `step` elements apart: sum of w[k] * grad[p
// + radius - k] over the k for which p + radius - k is inside.
template <typename Sum, typename T>
__device__ Sum gather(const T* grad, long long step, int p, int n, const Sum* weights, int radius) {
  Sum sum = 0;
  for (int k = max(0, p + radius - (n - 1)); k <= min(2 * radius, p + radius); ++k) {
    sum += weights[k] * static_cast<Sum>(grad[(p + radius - k) * step]);
  }
  return sum;
}

// in, out: (planes, height, width), contiguous. VERTICAL: the axis is a column, else a row. Block: (32, 8). Grid:
// (cdiv(width, 32), cdiv(height, 8), z), z strides over planes.
template <typename In, typename Out, typename Sum, bool VERTICAL>
__global__ void blur_backward(const In* in, Out* out, const Sum* weights, long long planes, int height, int width,
                              int radius) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const int n = VERTICAL ? height : width, j = VERTICAL ? y : x;
  for (long long plane = blockIdx.z; plane < planes; plane += gridDim.z) {
    const long long pixel = (plane * height + y) * width + x;
    const long long step = VERTICAL ? width : 1;
    const In* axis = in + pixel - j * step;
    Sum sum = gather<Sum>(axis, step, j, n, weights, radius);
    // Reflection maps positions -j and 2 (n - 1) - j to pixel j. They lie within a window only if j is within
    // `radius` of a border.
    if (j > 0 && j <= radius) sum += gather<Sum>(axis, step, -j, n, weights, radius);
    if (j < n - 1 && n - 1 - j <= radius) sum += gather<Sum>(axis, step, 2 * (n - 1) - j, n, weights, radius);
    out[pixel] = static_cast<Out>(sum);
  }
}
