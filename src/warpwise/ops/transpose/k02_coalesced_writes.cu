// Threads index the output's rows: writes are coalesced; reads are not, but L1 serves adjacent columns from the same
// lines. in: (rows, cols), out: (cols, rows). Block (32, 8), a tile of 32 x 32; grid: (cdiv(cols, 32), cdiv(rows, 32)).
template <typename T>
__global__ void transpose(const T* in, T* out, long long rows, long long cols) {
  const long long row = blockIdx.y * 32LL + threadIdx.x;
  for (long long col = blockIdx.x * 32LL + threadIdx.y; col < min(cols, blockIdx.x * 32LL + 32); col += 8) {
    if (row < rows) out[col * rows + row] = in[row * cols + col];
  }
}
