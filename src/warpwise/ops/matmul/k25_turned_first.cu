// A matrix turned into rows that begin on 128 bytes, from which the copy engine brings slices of B to k13.
//
// Words of 4 bytes by cp.async cost k13's feeding warps 14 clocks each 32, whether B lies column by column or its rows
// begin anywhere: 2.79 ms at 4096 where boxes take 2.53. Turning B once moves 134 MB, 37 us at DRAM's rate.

constexpr int kSide = 64, kWarps = 8;

// to: (columns, rows) = from: (rows, columns), transposed; rows of `from` lie from_pitch elements apart, of `to`
// to_pitch. Block: 32 x kWarps threads, a tile of kSide x kSide; grid: as many, those of a row of tiles side by side. A
// row in shared memory is a word longer than the tile, so that a column meets all banks.
__global__ void __launch_bounds__(32 * kWarps) turn_words(const float* __restrict__ from, long long from_pitch,
                                                          float* __restrict__ to, long long to_pitch, int rows,
                                                          int columns) {
  __shared__ float words[kSide][kSide + 1];
  const int across = (columns - 1) / kSide + 1;
  const int row = blockIdx.x / across * kSide, column = blockIdx.x % across * kSide;
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
