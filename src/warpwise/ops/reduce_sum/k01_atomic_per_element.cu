// One atomic addition an element: right and short, but every addition to a sum waits for the one before it.
//
// The L2 cache does about one atomic a clock on one address: 2^28 elements of one sum queue for about 0.15 s. Which
// addition comes first differs from run to run, so the rounding does too.

#include <warpwise/core/numeric.cuh>

// x: (rows, columns), contiguous; totals: (rows,), zero before. Grid: cdiv(rows * columns, block) blocks of any size.
template <class T>
__global__ void sum_atomic_per_element(const T* x, float* totals, long long rows, long long columns) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < rows * columns) atomicAdd(totals + i / columns, warpwise::to_float(x[i]));
}
