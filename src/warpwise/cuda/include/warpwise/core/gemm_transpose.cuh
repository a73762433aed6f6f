// Transposes matrices, for wgmma operands of 1 and 4 bytes, which must be K-major, and for loads by TMA.
//
// Bytes are transposed in blocks of 4 x 4 in registers: a lane loads 4 bytes of each of 4 rows and stores 4 bytes of
// each of 4 columns; a warp stores 128 consecutive bytes of a row of the result. In shared memory the word of row r
// and column c is at column c ^ (r / 4), so that neither access has bank conflicts.
#pragma once

constexpr int kSide = 128, kWords = kSide / 4, kWarps = 8;

// from: (rows, columns), to: (columns, rows), both in words of 4 bytes along their rows; rows and columns count bytes
// and are multiples of 4. Block: (32, kWarps). Grid: (cdiv(columns, kSide), cdiv(rows, kSide)). Shared memory: 16 KB.
__global__ void __launch_bounds__(32 * kWarps) transpose_bytes(const unsigned* __restrict__ from,
                                                               unsigned* __restrict__ to, int rows, int columns) {
  __shared__ unsigned words[kSide][kWords];
  const int lane = threadIdx.x, warp = threadIdx.y;
  const int first_row = blockIdx.y * kSide, first_column = blockIdx.x * kSide;

#pragma unroll
  for (int i = 0; i < kSide / kWarps; ++i) {
    const int row = warp + i * kWarps, column = lane * 4;
    const bool inside = first_row + row < rows && first_column + column < columns;
    const long long at = (static_cast<long long>(first_row + row) * columns + first_column + column) / 4;
    words[row][lane ^ (row / 4)] = inside ? from[at] : 0u;
  }
  __syncthreads();

#pragma unroll
  for (int i = 0; i < kWords / kWarps; ++i) {
    const int word = warp + i * kWarps, row = lane * 4;  // 4 columns and 4 rows of `from`
    if (first_row + row >= rows) continue;
    unsigned w[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) w[r] = words[row + r][word ^ lane];
    const unsigned low01 = __byte_perm(w[0], w[1], 0x5140), low23 = __byte_perm(w[2], w[3], 0x5140);
    const unsigned high01 = __byte_perm(w[0], w[1], 0x7362), high23 = __byte_perm(w[2], w[3], 0x7362);
    const unsigned transposed[4] = {__byte_perm(low01, low23, 0x5410), __byte_perm(low01, low23, 0x7632),
                                    __byte_perm(high01, high23, 0x5410), __byte_perm(high01, high23, 0x7632)};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int column = first_column + word * 4 + c;
      if (column < columns) to[(static_cast<long long>(column) * rows + first_row + row) / 4] = transposed[c];
    }
  }
}

// to: (columns, rows) = from: (rows, columns), transposed; rows of `from` are from_pitch elements apart, rows of `to`
// to_pitch. Block: (32, kWarps), a tile of SIDE x SIDE. Grid: one block per tile, row-major. Rows in shared
// memory have one word of padding, so that a column covers all banks.
template <int SIDE>
__global__ void __launch_bounds__(32 * kWarps) transpose_words(const float* __restrict__ from, long long from_pitch,
                                                               float* __restrict__ to, long long to_pitch, int rows,
                                                               int columns) {
  __shared__ float words[SIDE][SIDE + 1];
  const int tiles_n = (columns - 1) / SIDE + 1;
  const int row = blockIdx.x / tiles_n * SIDE, column = blockIdx.x % tiles_n * SIDE;
  const int lane = threadIdx.x, warp = threadIdx.y;
#pragma unroll
  for (int i = warp; i < SIDE; i += kWarps) {
#pragma unroll
    for (int j = lane; j < SIDE; j += 32)
      if (row + i < rows && column + j < columns) words[i][j] = from[(row + i) * from_pitch + column + j];
  }
  __syncthreads();
#pragma unroll
  for (int i = warp; i < SIDE; i += kWarps) {
#pragma unroll
    for (int j = lane; j < SIDE; j += 32)
      if (column + i < columns && row + j < rows) to[(column + i) * to_pitch + row + j] = words[j][i];
  }
}
