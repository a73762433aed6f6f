// One thread an element of C, which looks for its row's group by halves; neighbouring threads take neighbouring
// columns.
//
// A row knows its group after log2(groups) loads of ends that L1 keeps; the 2 * k loads of factors cost far more.

#include <warpwise/core/numeric.cuh>

// The first group that ends behind row, or groups if none does. A group without rows ends where it begins.
__device__ int group_of(long long row, const int* ends, int groups) {
  int first = 0, last = groups;
  while (first < last) {
    const int middle = first + (last - first) / 2;
    if (ends[middle] > row) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

// a: (rows, k), b: (groups, k, n), anyhow in memory: elements from one matrix, row or column to the next. c: (rows, n),
// row-major; rows past the last end are zero. Block: (x, y) columns and rows; grid: as many as cover (n, rows), and of
// rows each block takes every gridDim.y-th stretch.
template <class T>
__global__ void grouped_matmul_naive(const T* a, const T* b, const int* ends, T* c, int rows, int n, int k, int groups,
                                     long long a_row, long long a_column, long long b_matrix, long long b_row,
                                     long long b_column) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= n) return;
  for (long long row = blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += gridDim.y * blockDim.y) {
    const int group = group_of(row, ends, groups);
    const T* a_from = a + row * a_row;
    const T* b_from = b + group * b_matrix + column * b_column;
    float sum = 0.0f;
    for (int i = 0; i < (group < groups ? k : 0); ++i) {
      sum += warpwise::to_float(a_from[i * a_column]) * warpwise::to_float(b_from[i * b_row]);
    }
    c[row * n + column] = warpwise::from_float<T>(sum);
  }
}
