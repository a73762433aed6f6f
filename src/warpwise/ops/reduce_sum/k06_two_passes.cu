// 16-byte loads, and partial sums that a second launch adds in a fixed order: at DRAM bandwidth, and deterministic.
//
// A quarter of the load instructions keep the same bytes in flight. Without atomics the result does not depend on the
// order of the blocks. A row short enough for one block needs no second launch; a short one takes a warp or a part of
// it.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/vector.cuh>

// x: (rows, columns), contiguous; sums: (rows, parts). Block: (THREADS, 1), or with parts = 1 (THREADS, 128 / THREADS).
// Grid: cdiv(rows, rows in a block) * parts blocks; `parts` blocks stride over a row.
template <class T, class R, int THREADS, int BLOCK = warpwise::block_of_teams(THREADS)>
__global__ void __launch_bounds__(BLOCK) sum_two_passes(const T* x, R* sums, long long rows, long long columns,
                                                        int parts) {
  constexpr int kElements = warpwise::Pack<T>::size;
  __shared__ float warp_values[warpwise::kWarp];
  const long long row = static_cast<long long>(blockIdx.x / parts) * blockDim.y + threadIdx.y;
  if (row >= rows) columns = 0;  // threads past the last row take part in their warp's shuffles
  const int part = blockIdx.x % parts;
  x += row * columns;

  // A row may start and end between 16-byte boundaries: fewer than kElements elements on each side are added by part
  // 0.
  const long long head = warpwise::elements_before_boundary(x, columns);
  const long long vectors = (columns - head) / kElements;
  const long long tail = head + vectors * kElements;
  const warpwise::Pack<T>* body = warpwise::packs(x + head);

  float sum = 0.0f;
  const long long step = static_cast<long long>(parts) * THREADS;
#pragma unroll 4
  for (long long v = static_cast<long long>(part) * THREADS + threadIdx.x; v < vectors; v += step) {
    const warpwise::Pack<T> loaded = body[v];
#pragma unroll
    for (int e = 0; e < kElements; ++e) sum += warpwise::to_float(loaded.at[e]);
  }
#pragma unroll
  for (int e = 0; e < kElements - 1; e += THREADS) {
    const int at = e + threadIdx.x;
    if (part == 0 && at < head) sum += warpwise::to_float(x[at]);
    if (part == 0 && tail + at < columns) sum += warpwise::to_float(x[tail + at]);
  }

  sum = warpwise::team_reduce<warpwise::Sum, THREADS>(sum, warp_values);
  if (threadIdx.x == 0 && row < rows) sums[row * parts + part] = warpwise::from_float<R>(sum);
}
