// TF32 by mma.sync for Ampere: a cp.async pipeline, fragments loaded one step ahead, two blocks per SM.
//
// Tensor cores support TF32, the upper 19 bits of a float32. The definition of the operation rounds each element (to
// nearest, ties away from zero); the hardware would truncate the lower 13 bits.
//
// A float is as wide as a pair of 2-byte elements, so ldmatrix loads K-major operands; it cannot transpose 4-byte
// elements. Fragments of an MN-major operand, such as a row-major B, are loaded four floats at a time: the four belong
// to four groups of columns, and the columns of a group are four apart. The sums of a lane are then adjacent, 16 bytes
// per store.

#include <warpwise/sm80/gemm_mma_sync.cuh>  // the kernel: matmul_mma_sync
