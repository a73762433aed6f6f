// Few rows: a block takes 32 columns of all rows, so the sum over rows needs neither partial sums nor a second launch.
//
// Adjacent lanes take adjacent columns. The warps of a block divide the rows, whose loads are independent; the sums of
// the warps are added in order.

#include <warpwise/core/activation.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 512, kWarps = kThreads / warpwise::kWarp;

// grad, before, result: (m, n), bias: (n), contiguous. Grid: cdiv(n, 32) blocks.
template <class T, int ACTIVATION>
__global__ void __launch_bounds__(kThreads) activation_backward_few_rows(const T* grad, const T* before, T* result,
                                                                         T* bias, int m, int n) {
  __shared__ float warp_sums[kWarps][warpwise::kWarp];
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  const int column = blockIdx.x * warpwise::kWarp + lane;
  float sum = 0.0f;
#pragma unroll 8
  for (int row = warp; row < m; row += kWarps) {
    if (column >= n) continue;
    const long long index = static_cast<long long>(row) * n + column;
    const float gradient = warpwise::activation_backward<ACTIVATION, T>(warpwise::to_float(grad[index]),
                                                                        warpwise::to_float(before[index]));
    result[index] = warpwise::from_float<T>(gradient);
    sum += gradient;
  }
  warp_sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= n) return;
#pragma unroll
  for (int other = 1; other < kWarps; ++other) sum += warp_sums[other][lane];
  bias[column] = warpwise::from_float<T>(sum);
}
