// Short rows of any alignment: a warp reads its rows as 16-byte packs of one contiguous range.
//
// In k06 up to 4 lanes of such a row load the elements before and after its first and last 16-byte boundary singly.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/staged_rows.cuh>

// x: (rows, columns), contiguous; columns <= LANES * VALUES; sums: (rows,). Block and grid: those of StagedRows.
template <class T, int LANES, int VALUES>
__global__ void __launch_bounds__(128) sum_short_rows(const T* x, T* sums, long long rows, int columns) {
  warpwise::StagedRows<T, LANES, VALUES> here(rows, columns);
  float values[VALUES], sum = 0.0f;
  warpwise::wait_for_previous_kernel();
  here.spread(here.fetch(x), 0.0f, values);
#pragma unroll
  for (int e = 0; e < VALUES; ++e) sum += values[e];
  sum = warpwise::warp_reduce<warpwise::Sum, LANES>(sum);
  const long long row =
      (static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y) * here.kRows + threadIdx.x / LANES;
  if (here.lane == 0 && row < rows) sums[row] = warpwise::from_float<T>(sum);
}
