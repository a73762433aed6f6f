// Kernels for the lab's tests: honest ones, and broken ones that are named by what is wrong with them.
#include <cassert>

__global__ void affine(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + 1;
}

__global__ void no_guard(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2 * x[i] + 1;
}

__global__ void guard_off_by_one(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = 2 * x[i] + 1;
}

__global__ void tail_forgotten(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - n % 4) y[i] = 2 * x[i] + 1;
}

__global__ void writes_its_input(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const_cast<float*>(x)[i] *= 2;
  y[i] = x[i] + 1;
}

__global__ void unaligned_vectors(const float* x, float* y, int n) {
  const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 3 < n) {
    const float4 v = *reinterpret_cast<const float4*>(x + i);
    *reinterpret_cast<float4*>(y + i) = make_float4(2 * v.x + 1, 2 * v.y + 1, 2 * v.z + 1, 2 * v.w + 1);
  } else {
    for (int tail = i; tail < n; ++tail) y[tail] = 2 * x[tail] + 1;
  }
}

__global__ void adds_to_its_output(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += 2 * x[i] + 1;
}

__global__ void barrier_in_a_branch(const float* x, float* y, int n) {
  __shared__ float tile[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    tile[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = 2 * tile[threadIdx.x] + 1;
  }
}

__global__ void never_ends(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  volatile int step = 0;
  while (step < 1) step = 0;
  if (i < n) y[i] = 2 * x[i] + 1;
}

__global__ void asserts_too_much(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  assert(x[i] < 2.5f);
  y[i] = 2 * x[i] + 1;
}

__global__ void local_array_too_short(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float slope[4] = {2, 2, 2, 2};
  if (i < n) y[i] = slope[i % 5] * x[i] + 1;
}

__global__ void wrong_offset(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + 2;
}

__global__ void row_sum(const float* x, float* sums, int columns) {
  __shared__ float partial[64];
  float sum = 0;
  for (int column = threadIdx.x; column < columns; column += 64) sum += x[blockIdx.x * columns + column];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

__global__ void missing_barrier(const float* x, float* sums, int columns) {
  __shared__ float partial[64];
  float sum = 0;
  for (int column = threadIdx.x; column < columns; column += 64) sum += x[blockIdx.x * columns + column];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  __syncthreads();
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

__global__ void shared_memory_unset(const float* x, float* sums, int columns) {
  __shared__ float partial[64];
  if (threadIdx.x < columns) partial[threadIdx.x] = x[blockIdx.x * columns + threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int slot = 0; slot < 64; ++slot) sum += partial[slot];
  for (int column = 64; column < columns; ++column) sum += x[blockIdx.x * columns + column];
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void counts_without_atomics(const unsigned char* x, int* counts, int n) {
  if (threadIdx.x < 16) counts[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) counts[x[i]]++;
}

__global__ void counts_shared(const unsigned char* x, int* counts, int n) {
  __shared__ int bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&bins[x[i]], 1);
  __syncthreads();
  if (threadIdx.x < 16) counts[threadIdx.x] = bins[threadIdx.x];
}

__global__ void does_not_compile(const float* x, float* y, int n) { y[threadIdx.x] = 2 * z[threadIdx.x] + 1; }
