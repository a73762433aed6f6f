// Window sizes as template parameters: a thread computes 4 pixels of a row, 8 of a column, from a register window.
#include "../blur.cuh"

// image, out: (planes, height, width), contiguous. A block of 256 threads computes 64 x 32 pixels; z of the grid
// strides over planes. TAPS_X and TAPS_Y are odd. A word loaded from shared memory contributes to 4 sums along rows and
// 8 along columns instead of 1.
template <typename T, int TAPS_X, int TAPS_Y>
__global__ void __launch_bounds__(256) gaussian_blur(const T* image, T* out,
                                                     const typename Arithmetic<T>::Weight* weights_x,
                                                     const typename Arithmetic<T>::Weight* weights_y, long long planes,
                                                     int height, int width) {
  using Sum = typename Arithmetic<T>::Sum;
  constexpr int TILE_X = 64, TILE_Y = 32, ALONG_ROW = 4, ALONG_COLUMN = 8;
  constexpr int ROWS = TILE_Y + TAPS_Y - 1, COLUMNS = TILE_X + TAPS_X - 1;
  constexpr int PITCH = (COLUMNS + 3) / 4 * 4;  // a multiple of 4 words, for 16-byte loads
  __shared__ __align__(16) Sum tile[ROWS][PITCH];
  __shared__ __align__(16) Sum sums[ROWS][TILE_X];
  const int x0 = blockIdx.x * TILE_X, y0 = blockIdx.y * TILE_Y;
  const int thread = threadIdx.x;

  for (long long plane = blockIdx.z; plane < planes; plane += gridDim.z) {
    const T* from = image + plane * height * width;
    T* to = out + plane * height * width;
    // Indices beyond the halo of the last pixel are clamped; no output depends on them.
    for (int e = thread; e < ROWS * COLUMNS; e += 256) {
      const int i = e / COLUMNS, j = e % COLUMNS;
      const int y = reflected(min(y0 + i - TAPS_Y / 2, height - 1 + TAPS_Y / 2), height);
      const int x = reflected(min(x0 + j - TAPS_X / 2, width - 1 + TAPS_X / 2), width);
      tile[i][j] = static_cast<Sum>(from[static_cast<long long>(y) * width + x]);
    }
    __syncthreads();
    {
      Sum weight[TAPS_X];
#pragma unroll
      for (int k = 0; k < TAPS_X; ++k) weight[k] = static_cast<Sum>(weights_x[k]);
      for (int e = thread; e < ROWS * (TILE_X / ALONG_ROW); e += 256) {
        const int i = e / (TILE_X / ALONG_ROW), j = e % (TILE_X / ALONG_ROW) * ALONG_ROW;
        Sum window[ALONG_ROW + TAPS_X - 1];
#pragma unroll
        for (int k = 0; k < ALONG_ROW + TAPS_X - 1; ++k) window[k] = tile[i][j + k];
#pragma unroll
        for (int s = 0; s < ALONG_ROW; ++s) {
          Sum sum = 0;
#pragma unroll
          for (int k = 0; k < TAPS_X; ++k) sum += weight[k] * window[s + k];
          sums[i][j + s] = sum;
        }
      }
    }
    __syncthreads();
    {
      Sum weight[TAPS_Y];
#pragma unroll
      for (int k = 0; k < TAPS_Y; ++k) weight[k] = static_cast<Sum>(weights_y[k]);
      const int j = thread % TILE_X, i = thread / TILE_X * ALONG_COLUMN;
      Sum window[ALONG_COLUMN + TAPS_Y - 1];
#pragma unroll
      for (int k = 0; k < ALONG_COLUMN + TAPS_Y - 1; ++k) window[k] = sums[i + k][j];
#pragma unroll
      for (int s = 0; s < ALONG_COLUMN; ++s) {
        Sum sum = 0;
#pragma unroll
        for (int k = 0; k < TAPS_Y; ++k) sum += weight[k] * window[s + k];
        const int x = x0 + j, y = y0 + i + s;
        if (x < width && y < height) to[static_cast<long long>(y) * width + x] = Arithmetic<T>::finish(sum);
      }
    }
  }
}
