// Operands whose rows are not 16-byte aligned: one pass (gemm/pad.cu) copies them to padded rows; threads store C,
// without TMA.
//
// TMA requires 16-byte aligned rows, and cp.async of 2-byte elements would take eight times the instructions. The pass
// moves the operands twice, partly within L2: 4 x 33 MB at M = N = K = 4095 take 35 µs at DRAM bandwidth, in addition
// to 180 µs of multiplication.

// The kernel is that of k12.

#include "k12_overlapped_epilogue.cu"
