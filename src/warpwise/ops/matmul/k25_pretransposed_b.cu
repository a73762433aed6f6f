// Transposes a matrix to rows of 128-byte aligned pitch, from which TMA loads the k-tiles of B for k13.
//
// Loading 4-byte words by cp.async costs the producer warps of k13 14 clocks per 32 words, for a column-major B and for
// unaligned rows: 2.79 ms at M = N = K = 4096, and 2.53 with TMA. One transposition of B moves 134 MB, 37 us at DRAM
// bandwidth.

constexpr int kSide = 64, kWarps = 8;

// to: (columns, rows) = from: (rows, columns), transposed; rows of `from` are from_pitch elements apart, rows of `to`
// to_pitch. Block: (32, kWarps), a tile of kSide x kSide. Grid: one block per tile, row-major. Rows in shared memory
// have one word of padding, so that a column covers all banks.
__global__ void __launch_bounds__(32 * kWarps) transpose_words(const float* __restrict__ from, long long from_pitch,
                                                               float* __restrict__ to, long long to_pitch, int rows,
                                                               int columns) {
  __shared__ float words[kSide][kSide + 1];
  const int tiles_n = (columns - 1) / kSide + 1;
  const int row = blockIdx.x / tiles_n * kSide, column = blockIdx.x % tiles_n * kSide;
  const int lane = threadIdx.x, warp = threadIdx.y;
#pragma unroll
  for (int i = warp; i < kSide; i += kWarps) {
#pragma unroll
    for (int j = lane; j < kSide; j += 32)
      if (row + i < rows && column + j < columns) words[i][j] = from[(row + i) * from_pitch + column + j];
  }
  __syncthreads();
#pragma unroll
  for (int i = warp; i < kSide; i += kWarps) {
#pragma unroll
    for (int j = lane; j < kSide; j += 32)
      if (column + i < columns && row + j < rows) to[(column + i) * to_pitch + row + j] = words[j][i];
  }
}
