// Tensor cores by mma.sync for Ampere: a cp.async pipeline, and ldmatrix without bank conflicts.
//
// A warp executes 4096 multiply-adds in one or two instructions, where k08's warp needs 128. Tiles are swizzled in
// units of 16 bytes, fragments are loaded one k step ahead of mma.sync, and k-tiles of the next tile are loaded during
// the epilogue of this one, which combines sums into 16-byte stores by shuffles, without shared memory or a barrier. A
// transposed operand uses the same code with its lines along the other dimension.

#include <warpwise/sm80/gemm_mma_sync.cuh>  // the kernel: matmul_mma_sync
