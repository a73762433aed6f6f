// A 32 x 32 tile is transposed in shared memory: reads and writes coalesce, but a column is in one bank: a 32-way bank
// conflict. in: (rows, cols), out: (cols, rows). Block (32, 8); grid: (cdiv(cols, 32), cdiv(rows, 32)).
template <typename T>
__global__ void transpose(const T* in, T* out, long long rows, long long cols) {
  __shared__ T tile[32][32];
  const long long row0 = blockIdx.y * 32LL, col0 = blockIdx.x * 32LL;
  for (int i = threadIdx.y; i < 32; i += 8) {
    const long long row = row0 + i, col = col0 + threadIdx.x;
    if (row < rows && col < cols) tile[i][threadIdx.x] = in[row * cols + col];
  }
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += 8) {
    const long long row = row0 + threadIdx.x, col = col0 + i;
    if (row < rows && col < cols) out[col * rows + row] = tile[threadIdx.x][i];
  }
}
