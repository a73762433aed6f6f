// Short rows of any alignment: a warp moves its rows of dy, y and dx as 16-byte packs of contiguous ranges.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/staged_rows.cuh>

// dy, y, dx: (rows, columns), contiguous; columns <= LANES * VALUES. Block and grid: those of StagedRows.
template <class T, int LANES, int VALUES>
__global__ void __launch_bounds__(128) softmax_backward_short_rows(const T* dy, const T* y, T* dx, long long rows,
                                                                   int columns) {
  warpwise::StagedRows<T, LANES, VALUES> here(rows, columns);
  float gradient[VALUES], probability[VALUES];
  warpwise::wait_for_previous_kernel();
  const auto of_gradient = here.fetch(dy), of_probability = here.fetch(y);  // both in flight
  here.spread(of_gradient, 0.0f, gradient);
  here.spread(of_probability, 0.0f, probability);
  float dot = 0.0f;
#pragma unroll
  for (int e = 0; e < VALUES; ++e) dot += gradient[e] * probability[e];
  dot = warpwise::warp_reduce<warpwise::Sum, LANES>(dot);
#pragma unroll
  for (int e = 0; e < VALUES; ++e) gradient[e] = probability[e] * (gradient[e] - dot);
  here.store(dx, gradient);
}
