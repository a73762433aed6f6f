// Broken on purpose: without a barrier, a thread may read another thread's partial sum before it is stored.
__global__ void block_sum(const float* x, float* sums) {
  __shared__ float partial[256];
  int t = threadIdx.x;
  partial[t] = x[blockIdx.x * 256 + t];
  __syncthreads();
  for (int stride = 128; stride > 0; stride /= 2) {
    if (t < stride) partial[t] += partial[t + stride];
    // __syncthreads() is missing here
  }
  if (t == 0) sums[blockIdx.x] = partial[0];
}
