// Small matrices of any layout and alignment: one tile per cluster, whose blocks divide K.
//
// The kernel is that of k14 of matmul.

#include <warpwise/sm80/gemm_split_k.cuh>  // the kernel: warpwise::gemm::cluster_split_k
