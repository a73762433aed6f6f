// One thread per pixel sums its whole window from global memory: kx * ky loads of pixels and weights, mostly L1 hits.
#include "../blur.cuh"

// image, out: (planes, height, width), contiguous; weights of 2 * radius + 1 taps. Block (32, 8); grid: (cdiv(width,
// 32), cdiv(height, 8), z), z strides over planes.
template <typename T>
__global__ void gaussian_blur(const T* image, T* out, const typename Arithmetic<T>::Weight* weights_x,
                              const typename Arithmetic<T>::Weight* weights_y, long long planes, int height, int width,
                              int radius_x, int radius_y) {
  using Sum = typename Arithmetic<T>::Sum;
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const long long area = static_cast<long long>(height) * width;
  for (long long plane = blockIdx.z; plane < planes; plane += gridDim.z) {
    Sum sum = 0;
    for (int dy = -radius_y; dy <= radius_y; ++dy) {
      const T* row = image + plane * area + static_cast<long long>(reflected(y + dy, height)) * width;
      for (int dx = -radius_x; dx <= radius_x; ++dx) {
        const Sum weight = static_cast<Sum>(weights_y[dy + radius_y] * weights_x[dx + radius_x]);
        sum += weight * static_cast<Sum>(row[reflected(x + dx, width)]);
      }
    }
    out[plane * area + static_cast<long long>(y) * width + x] = Arithmetic<T>::finish(sum);
  }
}
