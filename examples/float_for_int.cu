// Right, but launched with n=1000.0: a launcher that packs by the Python type would hand the kernel the bits of a
// double.
__global__ void scale(float* x, float alpha, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= alpha;
}
