// The definition: one thread per point, all centroids from global memory.

// x: (n, width), centroids: (restarts, clusters, width). labels: (restarts, n) = the index of the nearest centroid, the
// first of equal ones; distances: (restarts, n) = its squared distance, or null. Grid: (cdiv(n, block), restarts).
__global__ void kmeans_assign_thread_per_point(const float* x, const float* centroids, int* labels, float* distances,
                                               long long n, int width, int clusters) {
  const long long point = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (point >= n) return;
  centroids += static_cast<long long>(blockIdx.y) * clusters * width;
  float nearest = 0.0f;
  int label = 0;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    float distance = 0.0f;
    for (int d = 0; d < width; ++d) {
      const float difference = x[point * width + d] - centroids[static_cast<long long>(cluster) * width + d];
      distance += difference * difference;
    }
    if (cluster == 0 || distance < nearest) {
      nearest = distance;
      label = cluster;
    }
  }
  labels[blockIdx.y * n + point] = label;
  if (distances) distances[blockIdx.y * n + point] = nearest;
}
