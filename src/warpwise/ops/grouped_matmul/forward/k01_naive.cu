// One thread per element of C, which finds its group by binary search; adjacent threads compute adjacent columns.
//
// The search takes log2(groups) loads of `ends`, which hit in L1; the 2 * k loads of operands cost far more.

#include <warpwise/core/numeric.cuh>

// The first group that ends after `row`, or `groups` if none does. Empty groups end where they begin.
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

// a: (rows, k), b: (groups, k, n), with strides of matrix, row and column in elements. c: (rows, n), row-major; rows
// past the last end are zero. Block: (x, y) columns and rows. Grid: (cdiv(n, blockDim.x), y); y strides over rows.
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
