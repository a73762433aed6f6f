// One launch for each parameter, one thread for each element: the definition and the baseline.

// p, g, b: (n); b may be null. g += weight_decay p; b = momentum b + g; p -= lr b, or lr (g + momentum b).
__global__ void sgd(float* p, const float* g, float* b, float lr, float momentum, float weight_decay, bool nesterov,
                    int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float step = g[i] + weight_decay * p[i];
  if (b) {
    b[i] = momentum * b[i] + step;
    step = nesterov ? step + momentum * b[i] : b[i];
  }
  p[i] -= lr * step;
}
