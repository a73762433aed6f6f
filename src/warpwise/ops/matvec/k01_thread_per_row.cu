// The definition: a thread a row. In a row-major matrix the lanes of a warp read 32 rows at once, a sector each.

#include <warpwise/core/numeric.cuh>

// a: (m, k), its rows row_stride elements apart, its columns column_stride; x: (k,); y: (m,).
// Grid: cdiv(m, blockDim.x) blocks.
template <class T>
__global__ void matvec_thread_per_row(const T* a, const T* x, T* y, long long m, long long k, long long row_stride,
                                      long long column_stride) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= m) return;
  const T* const from = a + row * row_stride;
  float sum = 0.0f;
  for (long long i = 0; i < k; ++i) sum += warpwise::to_float(from[i * column_stride]) * warpwise::to_float(x[i]);
  y[row] = warpwise::from_float<T>(sum);
}
