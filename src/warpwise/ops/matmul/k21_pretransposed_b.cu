// Transposes a matrix to rows of 128-byte aligned pitch, from which TMA loads the k-tiles of B for k13.
//
// Loading 4-byte words by cp.async costs the producer warps of k13 14 clocks per 32 words, for a column-major B and for
// unaligned rows: 2.79 ms at M = N = K = 4096, and 2.53 ms with TMA. One transposition of B moves 134 MB, which takes
// 37 µs at DRAM bandwidth.

#include <warpwise/core/gemm_transpose.cuh>  // the kernel: transpose_words
