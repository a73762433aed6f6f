// A tile and its halo in shared memory, and both passes there: each pixel is read about once and written once.
#include "../blur.cuh"

// image, out: (planes, height, width), contiguous. Block (32, 8) computes 32 x 32 pixels; z of the grid strides over
// planes. Dynamic shared memory: (32 + 2 radius_y) rows of 32 sums, then as many rows of 32 + 2 radius_x pixels.
template <typename T>
__global__ void gaussian_blur(const T* image, T* out, const typename Arithmetic<T>::Weight* weights_x,
                              const typename Arithmetic<T>::Weight* weights_y, long long planes, int height, int width,
                              int radius_x, int radius_y) {
  using Sum = typename Arithmetic<T>::Sum;
  constexpr int TILE = 32;
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile_rows = TILE + 2 * radius_y, tile_columns = TILE + 2 * radius_x;
  Sum* sums = reinterpret_cast<Sum*>(shared);
  T* tile = reinterpret_cast<T*>(sums + tile_rows * TILE);
  const int x0 = blockIdx.x * TILE, y0 = blockIdx.y * TILE;

  for (long long plane = blockIdx.z; plane < planes; plane += gridDim.z) {
    const T* from = image + plane * height * width;
    T* to = out + plane * height * width;
    // Indices beyond the halo of the last pixel are clamped; no output depends on them.
    for (int i = threadIdx.y; i < tile_rows; i += blockDim.y) {
      const int y = reflected(min(y0 + i - radius_y, height - 1 + radius_y), height);
      for (int j = threadIdx.x; j < tile_columns; j += blockDim.x) {
        const int x = reflected(min(x0 + j - radius_x, width - 1 + radius_x), width);
        tile[i * tile_columns + j] = from[static_cast<long long>(y) * width + x];
      }
    }
    __syncthreads();
    for (int i = threadIdx.y; i < tile_rows; i += blockDim.y) {
      Sum sum = 0;
      for (int k = 0; k <= 2 * radius_x; ++k) {
        sum += static_cast<Sum>(weights_x[k]) * static_cast<Sum>(tile[i * tile_columns + threadIdx.x + k]);
      }
      sums[i * TILE + threadIdx.x] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += blockDim.y) {
      Sum sum = 0;
      for (int k = 0; k <= 2 * radius_y; ++k)
        sum += static_cast<Sum>(weights_y[k]) * sums[(i + k) * TILE + threadIdx.x];
      const int x = x0 + threadIdx.x, y = y0 + i;
      if (x < width && y < height) to[static_cast<long long>(y) * width + x] = Arithmetic<T>::finish(sum);
    }
    // No barrier here: the next plane overwrites `tile`, which only the horizontal pass reads, and all threads
    // have completed that pass.
  }
}
