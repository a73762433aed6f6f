// Threads index the input's rows: reads are coalesced; the writes of a warp are a row apart and touch 32 sectors each.
// in: (rows, cols), out: (cols, rows). Block (32, 8), a tile of 32 x 32; grid: (cdiv(cols, 32), cdiv(rows, 32)).
template <typename T>
__global__ void transpose(const T* in, T* out, long long rows, long long cols) {
  const long long col = blockIdx.x * 32LL + threadIdx.x;
  for (long long row = blockIdx.y * 32LL + threadIdx.y; row < min(rows, blockIdx.y * 32LL + 32); row += 8) {
    if (col < cols) out[col * rows + row] = in[row * cols + col];
  }
}
