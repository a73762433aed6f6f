// Columns too long for the registers of one block, in those of a cluster: read once, where k07 reads them twice.
//
// The blocks of a cluster hold the parts of the same columns, and the first line of threads of each reads the sums of
// dy * y of the other parts from their shared memory. sm_90 and later.

#include <warpwise/core/previous_kernel.cuh>

#include "columns.cuh"

// dy, y, dx, block and grid: those of ColumnTile, with CLUSTER parts; a part is one batch.
template <class T, int W, int THREADS, int VALUES, int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) __cluster_dims__(1, CLUSTER, 1)
    softmax_backward_cluster_columns(const T* dy, const T* y, T* dx, long long columns, long long inner, int length,
                                     int share) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  float dot[W];
  here.read(dy, y, dot);
  here.template combine_cluster<Sums, CLUSTER>(dot);
  here.store(dx, here.first, dot);
  warpwise::sm90::cluster_wait();
}
