// Backward, one thread a row: dx = y * (dy - sum(dy * y)), as the definition says. Uncoalesced like its forward.
//
// Softmax's Jacobian is diag(y) - y y^T, so a row of the gradient needs one number of the whole row, sum(dy * y).
// Traffic: dy and y are read twice, dx is written once.

#include <warpwise/core/numeric.cuh>

// dy, y, dx: (rows, columns), contiguous. Grid: cdiv(rows, block) blocks of any size.
template <class T>
__global__ void softmax_backward_thread_per_row(const T* dy, const T* y, T* dx, long long rows, int columns) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  dy += row * columns;
  y += row * columns;
  dx += row * columns;

  float dot = 0.0f;
  for (int c = 0; c < columns; ++c) dot += warpwise::to_float(dy[c]) * warpwise::to_float(y[c]);
  for (int c = 0; c < columns; ++c) {
    dx[c] = warpwise::from_float<T>(warpwise::to_float(y[c]) * (warpwise::to_float(dy[c]) - dot));
  }
}
