// One element of padding per row of the tile: (i, j) is in bank (i + j) mod 32, so a column covers all 32 banks.
#include <warpwise/core/previous_kernel.cuh>

// in: (rows, cols), out: (cols, rows). Block (32, 8); grid: (cdiv(cols, 32), cdiv(rows, 32)).
template <typename T>
__global__ void transpose(const T* in, T* out, long long rows, long long cols) {
  // For 1- and 2-byte elements the padding is 4 bytes, one bank.
  constexpr int PADDING = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  __shared__ T tile[32][32 + PADDING];
  const long long row0 = blockIdx.y * 32LL, col0 = blockIdx.x * 32LL;
  warpwise::wait_for_previous_kernel();
  T loaded[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // all loads are in flight before the first element is stored
    const long long row = row0 + threadIdx.y + 8 * i, col = col0 + threadIdx.x;
    if (row < rows && col < cols) loaded[i] = in[row * cols + col];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) tile[threadIdx.y + 8 * i][threadIdx.x] = loaded[i];
  __syncthreads();
#pragma unroll
  for (int i = threadIdx.y; i < 32; i += 8) {
    const long long row = row0 + threadIdx.x, col = col0 + i;
    if (row < rows && col < cols) out[col * rows + row] = tile[threadIdx.x][i];
  }
}
