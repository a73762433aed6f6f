// One atomic in global memory per feature: all points of a cluster contend for the same few addresses.

// x: (n, width), labels: (restarts, n). sums: (restarts, clusters, width) and counts: (restarts, clusters), zero
// before. Labels outside [0, clusters) are left out. Grid: (cdiv(n * width, block), restarts).
__global__ void kmeans_update_global_atomics(const float* x, const int* labels, float* sums, int* counts, long long n,
                                             int width, int clusters) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n * width) return;
  const long long point = i / width;
  const int column = static_cast<int>(i - point * width), label = labels[blockIdx.y * n + point];
  if (static_cast<unsigned>(label) >= static_cast<unsigned>(clusters)) return;
  const long long row = static_cast<long long>(blockIdx.y) * clusters + label;
  atomicAdd(sums + row * width + column, x[i]);
  if (column == 0) atomicAdd(counts + row, 1);
}
