// One thread a row: the definition and the baseline. Neighbouring threads stand a row apart, so nothing coalesces.
//
// y[r, c] = e^(x[r, c] - max_r) / sum_c e^(x[r, c] - max_r); subtracting the row's maximum keeps e^x from overflowing.
// Traffic: each row is read three times (maximum, sum, result) and written once.

#include <warpwise/core/numeric.cuh>

// x, y: (rows, columns), contiguous. Grid: cdiv(rows, block) blocks of any size.
template <class T>
__global__ void softmax_thread_per_row(const T* x, T* y, long long rows, int columns) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += row * columns;
  y += row * columns;

  float max = warpwise::minus_infinity();
  for (int c = 0; c < columns; ++c) max = fmaxf(max, warpwise::to_float(x[c]));

  float sum = 0.0f;
  for (int c = 0; c < columns; ++c) sum += expf(warpwise::to_float(x[c]) - max);

  for (int c = 0; c < columns; ++c) {
    y[c] = warpwise::from_float<T>(expf(warpwise::to_float(x[c]) - max) / sum);
  }
}
