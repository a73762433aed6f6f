// Weights in constant memory, which broadcasts one word to a warp: the load units serve pixels only.
#include "../blur.cuh"

// WEIGHT and MAX_TAPS are defined by the launcher. Row 0 holds the horizontal window, row 1 the vertical one.
__constant__ WEIGHT weights[2][MAX_TAPS];

// image, out: (planes, height, width), contiguous. Block (32, 8); grid: (cdiv(width, 32), cdiv(height, 8), z), z
// strides over planes.
template <typename T>
__global__ void gaussian_blur(const T* image, T* out, long long planes, int height, int width, int radius_x,
                              int radius_y) {
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
        const Sum weight = static_cast<Sum>(weights[1][dy + radius_y] * weights[0][dx + radius_x]);
        sum += weight * static_cast<Sum>(row[reflected(x + dx, width)]);
      }
    }
    out[plane * area + static_cast<long long>(y) * width + x] = Arithmetic<T>::finish(sum);
  }
}
