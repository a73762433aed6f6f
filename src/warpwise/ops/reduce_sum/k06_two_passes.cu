// 16-byte loads, and partial sums that a second launch adds in a fixed order: at DRAM bandwidth, and deterministic.
//
// A quarter of the load instructions keep the same bytes in flight. Without atomics the result does not depend on the
// order of the blocks. A row short enough for one block needs no second launch; a short one takes a warp or a part of
// it.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/vector.cuh>

// x: (rows, columns), contiguous; sums: (rows, parts). Block: (THREADS, 1), or with parts = 1 (THREADS, 128 / THREADS).
// Grid: (cdiv(rows, rows in a block), parts); `parts` blocks stride over a row.
// 1024 threads of an SM leave 64 registers each: with the 32 that the compiler takes otherwise, half a batch is in
// flight.
template <class T, class R, int THREADS, int BLOCK = warpwise::block_of_teams(THREADS)>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK) sum_two_passes(const T* x, R* sums, long long rows,
                                                                      long long columns) {
  constexpr int kElements = warpwise::Pack<T>::size, kBatch = 4;
  __shared__ float warp_values[warpwise::kWarp];
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) columns = 0;  // threads past the last row take part in their warp's shuffles
  const int part = blockIdx.y, parts = gridDim.y;
  x += row * columns;

  // A row may start and end between 16-byte boundaries: part 0 adds fewer than kElements elements on each side. They
  // are loaded before the vectors and added after them.
  const long long head = warpwise::elements_before_boundary(x, columns);
  const long long vectors = (columns - head) / kElements;
  const int edges = part == 0 ? static_cast<int>(columns - vectors * kElements) : 0;
  constexpr int kEdges = warpwise::cdiv(2 * kElements - 2, THREADS);
  T edge[kEdges];
#pragma unroll
  for (int e = 0; e < kEdges; ++e) {
    const int at = e * THREADS + threadIdx.x;
    edge[e] = at < edges ? x[at < head ? at : at + vectors * kElements] : warpwise::from_float<T>(0.0f);
  }

  // A batch is in flight at once, the last one too: a loop over single vectors would wait for each.
  const warpwise::Pack<T>* body = warpwise::packs(x + head);
  float sum = 0.0f;
  const long long step = static_cast<long long>(parts) * THREADS;
#pragma unroll 1  // to unroll a loop of unknown stride takes a division, before the first load
  for (long long first = static_cast<long long>(part) * THREADS + threadIdx.x; first < vectors;
       first += kBatch * step) {
    warpwise::Pack<T> loaded[kBatch] = {};
#pragma unroll
    for (int v = 0; v < kBatch; ++v) {
      if (first + v * step < vectors) loaded[v] = body[first + v * step];
    }
#pragma unroll
    for (int v = 0; v < kBatch; ++v) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) sum += warpwise::to_float(loaded[v].at[e]);
    }
  }
#pragma unroll
  for (int e = 0; e < kEdges; ++e) sum += warpwise::to_float(edge[e]);

  sum = warpwise::team_reduce<warpwise::Sum, THREADS>(sum, warp_values);
  if (threadIdx.x == 0 && row < rows) sums[row * parts + part] = warpwise::from_float<R>(sum);
}
