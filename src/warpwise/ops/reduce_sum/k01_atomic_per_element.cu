// One atomic addition per element: short and correct, but the additions to one sum are serialised.
//
// L2 executes about one atomic per clock on one address: 2^28 elements of one sum take about 0.15 s. The order of the
// additions, and therefore the rounding, differs between runs.

#include <warpwise/core/numeric.cuh>

// x: (rows, columns), contiguous; totals: (rows,), zero-initialised. Grid: cdiv(rows * columns, block) blocks of any
// size.
template <class T>
__global__ void sum_atomic_per_element(const T* x, float* totals, long long rows, long long columns) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < rows * columns) atomicAdd(totals + i / columns, warpwise::to_float(x[i]));
}
