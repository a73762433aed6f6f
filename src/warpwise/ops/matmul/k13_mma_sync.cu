// Tensor cores by mma.sync for Ampere: a cp.async pipeline, and ldmatrix without bank conflicts.
//
// wmma hides its register layout, so k12 pads its tiles and alternates between loading and multiplying. Here tiles are
// swizzled in units of 16 bytes, fragments are loaded one k step ahead of mma.sync, and k-tiles of the next tile are
// loaded during the epilogue of this one, which combines sums into 16-byte stores by shuffles, without shared memory
// or a barrier. A transposed operand uses the same code with its lines along the other dimension.

#include <warpwise/sm80/gemm_mma_sync.cuh>  // the kernel: matmul_mma_sync
