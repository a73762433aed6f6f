// The definition in C, one parameter after the other; the compiler vectorises the loops.

// p, g, b: (n), not overlapping; b may be null.
void sgd(float* restrict p, const float* restrict g, float* restrict b, float lr, float momentum, float weight_decay,
         long nesterov, long n) {
  if (!b) {
    for (long i = 0; i < n; ++i) p[i] -= lr * (g[i] + weight_decay * p[i]);
    return;
  }
  for (long i = 0; i < n; ++i) {
    const float gradient = g[i] + weight_decay * p[i];
    b[i] = momentum * b[i] + gradient;
    p[i] -= lr * (nesterov ? gradient + momentum * b[i] : b[i]);
  }
}
