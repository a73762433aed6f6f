// silu(gate) * up, one thread per element: two reads and one write; silu(gate) stays in a register.
#include <warpwise/core/pack.cuh>

// gate, up, out: (n,). Grid: ceil(n / blockDim.x). Computed in float32.
template <typename T>
__global__ void silu_mul(const T* gate, const T* up, T* out, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float g = static_cast<float>(gate[i]);
  out[i] = static_cast<T>(g / (1.0f + expf(-g)) * static_cast<float>(up[i]));
}
