// The last block of a row adds the partial sums in their order: one launch instead of k06's two, and deterministic too.
//
// A second launch, and the allocation of the partial sums, take more host time than these sums take on the GPU.

#include <warpwise/core/partial_sums.cuh>

#include "row_sum.cuh"

// x: (rows, columns), contiguous; sums: (rows,). Block: THREADS. Grid: (rows, parts). workspace: zeros, `rows`
// semaphores and then rows * parts floats; they are zeros again at the end.
template <class T, class R, int THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) sum_last_block(const T* x, R* sums, int* workspace,
                                                                          long long rows, long long columns) {
  __shared__ float warp_values[warpwise::kWarp];
  const long long row = blockIdx.x;
  const int part = blockIdx.y, parts = gridDim.y;
  float* partials = reinterpret_cast<float*>(workspace + rows) + row * parts;

  float sum = sum_of_thread<T, THREADS>(x + row * columns, columns, part, parts);
  sum = warpwise::team_reduce<warpwise::Sum, THREADS>(sum, warp_values);
  if (threadIdx.x == 0) partials[part] = sum;
  if (!warpwise::is_last_block(workspace + row, parts)) return;

  float total = 0.0f;
  for (int i = threadIdx.x; i < parts; i += THREADS) {
    total += __ldcg(partials + i);
    partials[i] = 0.0f;
  }
  total = warpwise::team_reduce<warpwise::Sum, THREADS>(total, warp_values);
  if (threadIdx.x == 0) sums[row] = warpwise::from_float<R>(total);
}
