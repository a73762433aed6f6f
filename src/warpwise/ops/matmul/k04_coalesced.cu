// Neighbouring threads take neighbouring columns: a warp reads one broadcast element of A and 128 bytes of B in a row.
//
// Two sectors' worth of requests in place of 33 for each of the k steps. Only threadIdx.x and threadIdx.y have changed
// places.

#include <warpwise/core/numeric.cuh>

// a: (m, k), b: (k, n), c: (m, n), row-major. Block: (x, y) columns and rows; grid: as many as cover (n, m).
template <class T>
__global__ void matmul_coalesced(const T* a, const T* b, T* c, int m, int n, int k) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) {
    sum += warpwise::to_float(a[static_cast<long long>(row) * k + i]) *
           warpwise::to_float(b[static_cast<long long>(i) * n + column]);
  }
  c[static_cast<long long>(row) * n + column] = warpwise::from_float<T>(sum);
}
