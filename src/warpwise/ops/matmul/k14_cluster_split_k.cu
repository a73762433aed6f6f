// Few tiles: the blocks of a cluster divide K, in one launch; float32 on the CUDA cores, 2-byte types by mma.sync.
//
// With small M and N there are too few tiles for the GPU, and one block takes long for a large K. k15 divides K among
// programs and adds their sums by a second launch, which takes longer than a small product. Here the blocks that divide
// K are a cluster: they read each other's sums from distributed shared memory after one barrier. Any layout and
// alignment: cp.async copies 16, 4 or, through registers, 2 bytes.

#include <warpwise/sm80/gemm_split_k.cuh>  // the kernel: warpwise::gemm::cluster_split_k
