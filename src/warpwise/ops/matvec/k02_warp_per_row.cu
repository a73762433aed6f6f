// A warp a row: neighbouring lanes read neighbouring elements, and a butterfly of shuffles adds the 32 sums.

#include <warpwise/core/reduce.cuh>

// a: (m, k), its rows row_stride elements apart, its columns column_stride; x: (k,); y: (m,).
// Block: (32, rows). Grid: cdiv(m, rows) blocks.
template <class T>
__global__ void matvec_warp_per_row(const T* a, const T* x, T* y, long long m, long long k, long long row_stride,
                                    long long column_stride) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= m) return;  // whole warps
  const T* const from = a + row * row_stride;
  float sum = 0.0f;
#pragma unroll 4
  for (long long i = threadIdx.x; i < k; i += warpwise::kWarp)
    sum += warpwise::to_float(from[i * column_stride]) * warpwise::to_float(x[i]);
  sum = warpwise::warp_reduce<warpwise::Sum>(sum);
  if (threadIdx.x == 0) y[row] = warpwise::from_float<T>(sum);
}
