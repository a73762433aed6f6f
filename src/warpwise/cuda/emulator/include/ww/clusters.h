// The functions of clusters that CUDA's compiler has built in (__cluster_barrier_arrive, __cluster_map_shared_rank);
// cooperative groups have the same as members of cluster_group.
#pragma once

WW_INLINE dim3 __clusterDim() {
  const ww_dim3 shape = ww_cluster_shape();
  return {shape.x, shape.y, shape.z};
}
WW_INLINE dim3 __clusterIdx() {
  const ww_dim3 shape = ww_cluster_shape();
  return {blockIdx.x / shape.x, blockIdx.y / shape.y, blockIdx.z / shape.z};
}
WW_INLINE dim3 __clusterRelativeBlockIdx() {
  const ww_dim3 shape = ww_cluster_shape();
  return {blockIdx.x % shape.x, blockIdx.y % shape.y, blockIdx.z % shape.z};
}
WW_INLINE dim3 __clusterGridDimInClusters() {
  const ww_dim3 shape = ww_cluster_shape();
  return {gridDim.x / shape.x, gridDim.y / shape.y, gridDim.z / shape.z};
}
WW_INLINE unsigned __clusterRelativeBlockRank() { return ww_cluster_rank(); }
WW_INLINE unsigned __clusterSizeInBlocks() {
  const ww_dim3 shape = ww_cluster_shape();
  return shape.x * shape.y * shape.z;
}
WW_INLINE void __cluster_barrier_arrive(WW_LINE) { ww_cluster_arrive(1, line); }
WW_INLINE void __cluster_barrier_arrive_relaxed(WW_LINE) { ww_cluster_arrive(0, line); }
WW_INLINE void __cluster_barrier_wait(WW_LINE) { ww_cluster_wait(line); }
WW_INLINE void __threadfence_cluster() { ww_fence(1); }
WW_INLINE void* __cluster_map_shared_rank(const void* p, unsigned rank, WW_LINE) {
  return ww_map_shared(p, rank, line);
}
WW_INLINE unsigned __cluster_query_shared_rank(const void* p, WW_LINE) {
  const int rank = ww_shared_rank(p);
  if (rank < 0)
    ww_fail(WW_UNDEFINED, "__cluster_query_shared_rank of an address that is not in the cluster's shared memory", line);
  return static_cast<unsigned>(rank);
}
