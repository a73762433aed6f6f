// 16-byte loads, and partial sums that a second launch adds in a fixed order: as fast as memory, the same in each run.
//
// A quarter of the load instructions keep the same bytes in flight. Without atomics nothing depends on which block is
// first. A row short enough for one block, or for one warp of a block, needs no second launch.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/vector.cuh>

// x: (rows, columns), contiguous; sums: (rows, parts). Block: (THREADS, 1), or (32, kWarpsOfTeams) with parts = 1.
// Grid: cdiv(rows, rows in a block) * parts blocks; a row's parts share its columns.
template <class T, class R, int THREADS, int BLOCK = warpwise::block_of_teams(THREADS)>
__global__ void __launch_bounds__(BLOCK) sum_two_passes(const T* x, R* sums, long long rows, long long columns,
                                                        int parts) {
  constexpr int kElements = warpwise::Pack<T>::size;
  __shared__ float of_warp[warpwise::kWarp];
  const long long row = static_cast<long long>(blockIdx.x / parts) * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // whole warps leave, and only where no barrier follows
  const int part = blockIdx.x % parts;
  x += row * columns;

  // A row may start and end between 16-byte boundaries: fewer than kElements on each side, left to the first part.
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
  if (part == 0 && threadIdx.x < head) sum += warpwise::to_float(x[threadIdx.x]);
  if (part == 0 && tail + threadIdx.x < columns) sum += warpwise::to_float(x[tail + threadIdx.x]);

  sum = warpwise::team_reduce<warpwise::Sum, THREADS>(sum, of_warp);
  if (threadIdx.x == 0) sums[row * parts + part] = warpwise::from_float<R>(sum);
}
