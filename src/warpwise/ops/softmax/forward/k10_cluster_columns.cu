// Columns too long for the registers of one block, in those of a cluster: read once, where k09 reads them twice.
//
// The blocks of a cluster hold the parts of the same columns, and the first line of threads of each reads the maxima
// and the sums of the other parts from their shared memory. sm_90 and later.

#include <warpwise/core/previous_kernel.cuh>

#include "columns.cuh"

// x, y, block and grid: those of ColumnTile, with CLUSTER parts; a part is one batch.
template <class T, int W, int THREADS, int VALUES, int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) __cluster_dims__(1, CLUSTER, 1)
    softmax_cluster_columns(const T* x, T* y, long long columns, long long inner, int length, int share) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  Statistics own[W], all[W];
  here.read_batch(x, own);
#pragma unroll
  for (int w = 0; w < W; ++w) all[w] = own[w];
  here.template combine_cluster<MaxAndSumOf<T>, CLUSTER>(all);
  float scale[W];
#pragma unroll
  for (int w = 0; w < W; ++w) scale[w] = warpwise::exponential<T>(own[w].max - all[w].max) / all[w].sum;
  here.store(y, here.first, scale);
  warpwise::sm90::cluster_wait();
}
