// One element per thread, in blocks as narrow as the matrix: no shared memory and no barrier, for small thin matrices.
//
// As in k02 lanes run along the output's rows. If the matrix has few rows, a block computes whole rows of the output,
// so its writes are contiguous. If it has few columns, a block reads all columns of 32 or more rows of the input: its
// warps read the same lines, which come from L2 once.

#include <warpwise/core/previous_kernel.cuh>

// in: (rows, cols), out: (cols, rows). Any block; grid: (cdiv(cols, blockDim.y), cdiv(rows, blockDim.x)).
template <typename T>
__global__ void transpose(const T* in, T* out, int rows, int cols) {
  const int row = blockIdx.y * blockDim.x + threadIdx.x;
  const int col = blockIdx.x * blockDim.y + threadIdx.y;
  warpwise::wait_for_previous_kernel();
  if (row < rows && col < cols)
    out[static_cast<long long>(col) * rows + row] = in[static_cast<long long>(row) * cols + col];
}
