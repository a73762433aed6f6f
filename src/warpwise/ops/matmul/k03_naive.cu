// One thread an element of C, in the order that comes first to mind: neighbouring threads take neighbouring rows.
//
// At one moment the 32 lanes of a warp read 32 rows of A, k elements apart: 32 sectors of 32 bytes for 4 bytes each; C
// is written the same way.

#include <warpwise/core/numeric.cuh>

// a: (m, k), b: (k, n), c: (m, n), row-major; of int8, c is int. Block: (x, y) rows and columns; grid: as many as cover
// (m, n).
template <class T, class Out = T>
__global__ void matmul_naive(const T* a, const T* b, Out* c, int m, int n, int k) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int column = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  decltype(warpwise::to_accumulator(*a)) sum = 0;
  for (int i = 0; i < k; ++i) {
    sum += warpwise::to_accumulator(a[static_cast<long long>(row) * k + i]) *
           warpwise::to_accumulator(b[static_cast<long long>(i) * n + column]);
  }
  c[static_cast<long long>(row) * n + column] = warpwise::from_accumulator<Out>(sum);
}
