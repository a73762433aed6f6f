// Correct, but launched with n=1000.0: a launcher that packs arguments by their Python type would pass the bits of a
// double for the int.
__global__ void scale(float* x, float alpha, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= alpha;
}
