// Short rows of any alignment: a warp reads and writes its rows as 16-byte packs of one contiguous range.
//
// In k05 the lanes of such a row access single elements, and a row takes a whole warp from 17 elements on.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/staged_rows.cuh>

// x, y: (rows, columns), contiguous; columns <= LANES * VALUES. Block and grid: those of StagedRows.
template <class T, int LANES, int VALUES>
__global__ void __launch_bounds__(128) softmax_short_rows(const T* x, T* y, long long rows, int columns) {
  warpwise::StagedRows<T, LANES, VALUES> here(rows, columns);
  float values[VALUES];
  warpwise::wait_for_previous_kernel();
  here.spread(here.fetch(x), warpwise::minus_infinity(), values);
  float max = values[0];
#pragma unroll
  for (int e = 1; e < VALUES; ++e) max = fmaxf(max, values[e]);
  max = warpwise::warp_reduce<warpwise::Max, LANES>(max);
  float sum = 0.0f;
#pragma unroll
  for (int e = 0; e < VALUES; ++e) {
    values[e] = warpwise::exponential<T>(values[e] - max);
    sum += values[e];
  }
  const float scale = 1.0f / warpwise::warp_reduce<warpwise::Sum, LANES>(sum);
#pragma unroll
  for (int e = 0; e < VALUES; ++e) values[e] *= scale;
  here.store(y, values);
}
