// One thread an element of a group's matrix, which sums over the group's rows; neighbours take neighbouring columns.
//
// The sum runs down two columns, so that a warp's lanes read one row of both factors at a time.

#include <warpwise/core/numeric.cuh>

// a: (rows, k), grad: (rows, n), anyhow in memory: elements from one row or column to the next. result: (groups, k, n),
// row-major. Block: (x, y) columns and rows of a matrix; grid: as many as cover (n, k), and z, at most the groups, of
// which each block takes every gridDim.z-th.
template <class T>
__global__ void grouped_matmul_backward_naive(const T* a, const T* grad, const int* ends, T* result, int rows, int n,
                                              int k, int groups, long long a_row, long long a_column,
                                              long long grad_row, long long grad_column) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int line = blockIdx.y * blockDim.y + threadIdx.y;
  if (line >= k || column >= n) return;
  for (int group = blockIdx.z; group < groups; group += gridDim.z) {
    const int start = max(group ? ends[group - 1] : 0, 0), end = min(ends[group], rows);
    float sum = 0.0f;
    for (long long row = start; row < end; ++row) {
      sum += warpwise::to_float(a[row * a_row + line * a_column]) *
             warpwise::to_float(grad[row * grad_row + column * grad_column]);
    }
    result[(static_cast<long long>(group) * k + line) * n + column] = warpwise::from_float<T>(sum);
  }
}
