// One launch instead of k06's two: the last block of a row adds the partial sums of the others in their order.
//
// A second launch, and the allocation of the partial sums, take more host time than these sums take on the GPU. A block
// stores its sum and a flag in one word of 8 bytes: no fence, no counter, and no read after it.

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "row_sum.cuh"

// x: (rows, columns), contiguous; sums: (rows,). Block: THREADS. Grid: (rows, parts). workspace: rows * (parts - 1)
// words of 8 bytes, zeros, and zeros again at the end. A block waits only for blocks with a lower index, which start
// before it.
template <class T, class R, int THREADS, int BATCH>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) sum_last_block(const T* x, R* sums, int* workspace,
                                                                          long long rows, long long columns) {
  __shared__ float warp_values[warpwise::kWarp];
  const long long row = blockIdx.x;
  const int part = blockIdx.y, others = gridDim.y - 1;
  auto* const words = reinterpret_cast<unsigned long long*>(workspace) + row * others;
  warpwise::wait_for_previous_kernel();
  float sum = sum_of_thread<T, THREADS, BATCH>(x + row * columns, columns, part, gridDim.y);
  if (part == others) sum += warpwise::take_sum(words, others, threadIdx.x, THREADS, 1);
  sum = warpwise::team_reduce<warpwise::Sum, THREADS>(sum, warp_values);
  if (threadIdx.x > 0) return;
  if (part < others)
    warpwise::send_value(words + part, sum);
  else
    sums[row] = warpwise::from_float<R>(sum);
}
