// The Gaussian window is separable: passes of kx and ky taps replace kx * ky, with an intermediate array in memory.
#include "../blur.cuh"

// image: (planes, height, width) -> sums of the same shape, not rounded. Block (32, 8); grid:
// (cdiv(width, 32), cdiv(height, 8), z), z strides over planes.
template <typename T>
__global__ void along_rows(const T* image, typename Arithmetic<T>::Sum* sums,
                           const typename Arithmetic<T>::Weight* weights, long long planes, int height, int width,
                           int radius) {
  using Sum = typename Arithmetic<T>::Sum;
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  for (long long plane = blockIdx.z; plane < planes; plane += gridDim.z) {
    const long long row = (plane * height + y) * width;
    Sum sum = 0;
    for (int d = -radius; d <= radius; ++d) {
      sum += static_cast<Sum>(weights[d + radius]) * static_cast<Sum>(image[row + reflected(x + d, width)]);
    }
    sums[row + x] = sum;
  }
}

// sums: (planes, height, width) -> out of the same shape, rounded.
template <typename T>
__global__ void along_columns(const typename Arithmetic<T>::Sum* sums, T* out,
                              const typename Arithmetic<T>::Weight* weights, long long planes, int height, int width,
                              int radius) {
  using Sum = typename Arithmetic<T>::Sum;
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  for (long long plane = blockIdx.z; plane < planes; plane += gridDim.z) {
    const long long first = plane * height * width + x;
    Sum sum = 0;
    for (int d = -radius; d <= radius; ++d) {
      sum += static_cast<Sum>(weights[d + radius]) *
             sums[first + static_cast<long long>(reflected(y + d, height)) * width];
    }
    out[first + static_cast<long long>(y) * width] = Arithmetic<T>::finish(sum);
  }
}
