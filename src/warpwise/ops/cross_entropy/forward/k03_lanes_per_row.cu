// A few lanes per row with maximum and sum in one pass, and one launch: the last block adds the sums of the others.
//
// Lanes read adjacent classes, so loads coalesce. At 10 classes 4 lanes take a row, and 128 rows fit two blocks; the
// second launch of k01 would take as long as the rest. The order of all additions is fixed.

#include <warpwise/core/mean_loss.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;

// x: (rows, classes), target: (rows); sums, counts: (gridDim.x), and semaphore are null for one block; loss, count: one
// element. Grid: cdiv(rows, kThreads / LANES) or fewer blocks, which loop over rows.
template <int LANES>
__global__ void __launch_bounds__(kThreads) cross_entropy(const float* x, const long long* target, float* sums,
                                                          float* counts, int* semaphore, float* loss, long long* count,
                                                          int rows, int classes, long long ignore_index) {
  using warpwise::MaxAndSum;
  __shared__ float warp_values[warpwise::kWarp];
  const int lane = threadIdx.x % LANES;
  constexpr int kRows = kThreads / LANES;
  float sum = 0.0f, counted = 0.0f;
  for (long long first = static_cast<long long>(blockIdx.x) * kRows; first < rows; first += gridDim.x * kRows) {
    const long long row = first + threadIdx.x / LANES;
    const bool inside = row < rows;
    const float* const from = x + (inside ? row : 0) * classes;
    MaxAndSum::Value value = MaxAndSum::identity();
    for (int c = lane; inside && c < classes; c += LANES) value = MaxAndSum::with(value, from[c]);
    value = warpwise::warp_reduce<MaxAndSum, LANES>(value);
    const long long t = inside ? target[row] : ignore_index;
    if (lane == 0 && t != ignore_index) {
      const bool known = t >= 0 && t < classes;
      sum += known ? logf(value.sum) - (from[t] - value.max) : __int_as_float(0x7fffffff);
      counted += 1.0f;
    }
  }
  warpwise::store_mean_loss<kThreads>(counted, sum, warp_values, sums, counts, semaphore, loss, count);
}
