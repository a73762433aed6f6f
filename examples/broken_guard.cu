// Broken on purpose: the last block has threads past the end, and nothing keeps them from reading and writing there.
__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + b[i];
}
