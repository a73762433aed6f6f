// Tiles of A and B in shared memory: a block loads an element from global memory once for 32 threads.
//
// A block computes a 32 x 32 tile of C from k-tiles of 32. Global traffic falls by a factor of 32; each multiply-add
// takes two loads from shared memory, whose bandwidth supports a quarter of the fp32 rate.

#include <warpwise/core/numeric.cuh>

constexpr int kTile = 32;

// a: (m, k), b: (k, n), c: (m, n), row-major. Block: (kTile, kTile) columns and rows. Grid: (cdiv(n, kTile), cdiv(m,
// kTile)). Shared memory: 8 KB.
template <class T>
__global__ void __launch_bounds__(kTile* kTile) matmul_shared_tile(const T* a, const T* b, T* c, int m, int n, int k) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;

  float sum = 0.0f;
  for (int first = 0; first < k; first += kTile) {
    const bool a_inside = row < m && first + x < k, b_inside = first + y < k && column < n;
    a_tile[y][x] = a_inside ? warpwise::to_float(a[static_cast<long long>(row) * k + first + x]) : 0.0f;
    b_tile[y][x] = b_inside ? warpwise::to_float(b[static_cast<long long>(first + y) * n + column]) : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += a_tile[y][i] * b_tile[i][x];
    __syncthreads();  // the next iteration overwrites the tiles
  }
  if (row < m && column < n) c[static_cast<long long>(row) * n + column] = warpwise::from_float<T>(sum);
}
