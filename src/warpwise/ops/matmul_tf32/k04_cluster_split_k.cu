// Few tiles: mma.sync for any layout and alignment, and the blocks of a cluster divide K.
//
// The kernel is that of k14 of matmul.

#include <warpwise/sm80/gemm_split_k.cuh>  // the kernel: warpwise::gemm::cluster_split_k
