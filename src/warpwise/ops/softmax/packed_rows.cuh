// Rows of any length and alignment in packs of 16 bytes: shared by softmax's k14 and softmax_backward's k12.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/core/vector.cuh>
#include <warpwise/sm90/cluster.cuh>

// The packs of a row begin at multiples of 16 bytes. `lanes` threads hold up to VECTORS packs each, and up to EDGES of
// the elements before the first pack and after the last one, which are fewer than two packs.
// x: (rows, columns), contiguous, aligned to 16 bytes.
template <class T, int VECTORS, int EDGES>
struct PackedRow {
  using Pack = warpwise::Pack<T>;
  using Words = warpwise::Pack<unsigned>;  // as single elements, halves would take a register each
  static constexpr int kSize = Pack::size, kVectors = VECTORS, kEdges = EDGES;
  long long start;                        // of the row
  int columns, head, count, lane, lanes;  // head: elements before the first pack; count: packs

  __device__ PackedRow(const T* x, long long row, int columns, int lane, int lanes)
      : start(row * columns), columns(columns), lane(lane), lanes(lanes) {
    head = static_cast<int>(warpwise::elements_before_boundary(x + start, columns));
    count = (columns - head) / kSize;
  }

  static __device__ float element(const Words& words, int e) {
    return warpwise::to_float(reinterpret_cast<const Pack*>(&words)->at[e]);
  }
  // The place in the row of this thread's i-th single element, or -1.
  __device__ int edge(int i) const {
    const int number = lane + i * lanes;
    return number < columns - count * kSize ? (number < head ? number : number + count * kSize) : -1;
  }

  // All loads are in flight at once. Missing elements are `fill`.
  __device__ void load(const T* x, float fill, Words (&words)[VECTORS], float (&singles)[EDGES]) const {
    const auto* const from = reinterpret_cast<const Words*>(x + start + head);
    Pack filled;
#pragma unroll
    for (int e = 0; e < kSize; ++e) filled.at[e] = warpwise::from_float<T>(fill);
#pragma unroll
    for (int i = 0; i < EDGES; ++i) singles[i] = edge(i) < 0 ? fill : warpwise::to_float(x[start + edge(i)]);
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      words[v] = *reinterpret_cast<const Words*>(&filled);
      if (lane + v * lanes < count) words[v] = from[lane + v * lanes];
    }
  }

  __device__ void store(T* y, const Words (&words)[VECTORS], const float (&singles)[EDGES]) const {
    auto* const to = reinterpret_cast<Words*>(y + start + head);
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
      if (lane + v * lanes < count) to[lane + v * lanes] = words[v];
#pragma unroll
    for (int i = 0; i < EDGES; ++i)
      if (edge(i) >= 0) y[start + edge(i)] = warpwise::from_float<T>(singles[i]);
  }
};

// The values of the cluster's blocks, combined in every thread by `combine`, which gets the value of block `lane` in
// each lane of a warp. Every thread calls cluster_wait before it returns: other blocks read its block's value.
template <int CLUSTER, class Value, class Combine>
__device__ inline Value cluster_combine(Value of_block, Combine combine) {
  __shared__ __align__(16) float own[4];  // ld_shared_cluster_v4 reads four floats
  __shared__ Value of_cluster;
  if (threadIdx.x == 0) {
    float four[4] = {};
    memcpy(four, &of_block, sizeof(Value));
    memcpy(own, four, sizeof(four));
  }
  warpwise::sm90::cluster_sync();
  if (threadIdx.x < warpwise::kWarp) {
    float four[4];
    warpwise::sm90::ld_shared_cluster_v4(four, warpwise::shared_address(own), threadIdx.x % CLUSTER);
    Value value;
    memcpy(&value, four, sizeof(Value));
    value = combine(value);
    if (threadIdx.x == 0) of_cluster = value;
  }
  __syncthreads();  // after it, no load from another block is in flight
  warpwise::sm90::cluster_arrive_relaxed();
  return of_cluster;
}
