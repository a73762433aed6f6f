// The sum of a part of a row: 16-byte loads, several in flight.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/vector.cuh>
#include <warpwise/core/words.cuh>

// x: a row of `columns` elements. THREADS threads of each of `parts` blocks stride over it. Returns the sum of the
// elements that thread threadIdx.x of block `part` reads.
template <class T, int THREADS, int BATCH = 4>
__device__ inline float sum_of_thread(const T* x, long long columns, int part, int parts) {
  constexpr int kElements = warpwise::Pack<T>::size, kBatch = BATCH;
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

  // All loads of a batch are in flight at once, also in the last batch; a loop over single vectors would wait for each.
  const auto* const body = reinterpret_cast<const warpwise::Words<T>*>(x + head);
  float sum = 0.0f;
  const long long step = static_cast<long long>(parts) * THREADS;
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long first = static_cast<long long>(part) * THREADS + threadIdx.x; first < vectors;
       first += kBatch * step) {
    warpwise::Words<T> loaded[kBatch] = {};
#pragma unroll
    for (int v = 0; v < kBatch; ++v) {
      if (first + v * step < vectors) loaded[v] = body[first + v * step];
    }
#pragma unroll
    for (int v = 0; v < kBatch; ++v) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) sum += warpwise::to_float(warpwise::elements<T>(loaded[v]).at[e]);
    }
  }
#pragma unroll
  for (int e = 0; e < kEdges; ++e) sum += warpwise::to_float(edge[e]);
  return sum;
}
