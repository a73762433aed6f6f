// One thread an element, which adds before it writes: C is read once, and the product is not written and read again.

#include <warpwise/core/numeric.cuh>

// a: (m, k), b: (k, n), c: (m, n), each with its strides in elements, 0 where c is broadcast; result: (m, n),
// contiguous. Block: (x, y) columns and rows; grid: as many as cover (n, m). Where beta is 0 c is not read.
template <class T>
__global__ void addmm_thread_per_element(const T* a, const T* b, const T* c, T* result, int m, int n, int k,
                                         float alpha, float beta, long long a_row, long long a_column, long long b_row,
                                         long long b_column, long long c_row, long long c_column) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) {
    sum += warpwise::to_float(a[row * a_row + i * a_column]) * warpwise::to_float(b[i * b_row + column * b_column]);
  }
  sum *= alpha;
  if (beta != 0.0f) sum += beta * warpwise::to_float(c[row * c_row + column * c_column]);
  result[static_cast<long long>(row) * n + column] = warpwise::from_float<T>(sum);
}
