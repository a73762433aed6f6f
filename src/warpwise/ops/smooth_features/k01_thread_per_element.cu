// The definition: one thread per feature of a point. Adjacent threads read adjacent features of a neighbour.

// values, out: (n, width); rowptr: (n + 1), columns, weights: (edges), weights may be null; scale: (n). Grid:
// cdiv(n * width, block) blocks of any size.
__global__ void smooth_thread_per_element(const float* values, const int* rowptr, const int* columns,
                                          const float* weights, const float* scale, float* out, long long n,
                                          int width) {
  const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread >= n * width) return;
  const long long i = thread / width;
  const int column = static_cast<int>(thread - i * width);
  float sum = values[thread];
  for (int edge = rowptr[i]; edge < rowptr[i + 1]; ++edge) {
    sum += (weights ? weights[edge] : 1.0f) * values[static_cast<long long>(columns[edge]) * width + column];
  }
  out[thread] = sum * scale[i];
}
