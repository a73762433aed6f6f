// A reduction over the blocks of a cluster, which share a row: softmax's k10 and softmax_backward's k09.
#pragma once

#include <warpwise/core/reduce.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>

// Combines the two floats of each of CLUSTER blocks, in order of their ranks; all threads of the cluster call this once
// with the values of their block. Every block must call cluster_wait before it returns: others read its values.
template <int CLUSTER, class Combine>
__device__ float2 combine_blocks(float2 of_block, Combine combine) {
  __shared__ __align__(16) float values[4];  // ld_shared_cluster_v4 reads four floats
  if (threadIdx.x == 0) {
    values[0] = of_block.x;
    values[1] = of_block.y;
    values[2] = values[3] = 0.0f;
  }
  warpwise::sm90::cluster_sync();
  float found[CLUSTER][4];
#pragma unroll
  for (int rank = 0; rank < CLUSTER; ++rank) {
    warpwise::sm90::ld_shared_cluster_v4(found[rank], warpwise::shared_address(values), rank);
  }
  warpwise::sm90::cluster_arrive_relaxed();
  float2 all = make_float2(found[0][0], found[0][1]);
#pragma unroll
  for (int rank = 1; rank < CLUSTER; ++rank) all = combine(all, make_float2(found[rank][0], found[rank][1]));
  return all;
}
