// Kernels with divergent control flow. The tests run them emulated and as SASS.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void nested(const int* x, int* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = x[i], sum = 0;
  for (int k = 0; k < v % 13; k++) {
    if (k & 1) {
      if (v & 4) {
        sum += k * 3;
        if (k == 7) continue;
      } else {
        sum ^= v << k;
        if (sum & 0x40) break;
      }
      sum += 11;
    } else {
      for (int j = 0; j < (v >> 3) % 5; j++) {
        sum = sum * 5 + j;
        if ((sum ^ j) % 7 == 3) break;
      }
    }
    sum -= k;
  }
  y[i] = sum;
}

extern "C" __global__ void early_return(const int* x, int* y) {
  const int lane = threadIdx.x & 31, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (x[i] % 3 == 0) return;
  int steps = 0, v = x[i];
  while (true) {
    if (v == 1 || steps > 40) break;
    v = v & 1 ? 3 * v + 1 : v / 2;
    if (++steps == lane) {
      y[i] = -v;
      return;
    }
  }
  y[i] = steps;
}

extern "C" __global__ void switches(const int* x, int* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = x[i];
  switch (v % 11) {
    case 0:
      v = 3;
      break;
    case 1:
      v = x[v % 32];
      break;
    case 2:
      v *= 7;  // fallthrough
    case 3:
      v -= 1;
      break;
    case 4:
      v = __popc(v);
      break;
    case 5:
      v = __brev(v);
      break;
    case 6:
      v = v > 50 ? x[5] : x[6];
      break;
    case 7:
      v = -v;
      break;
    case 8:
      v = __clz(v);
      break;
    default:
      v ^= 0x55;
  }
  y[i] = v;
}

__constant__ int offsets[16];
__device__ int bias = 5;
__device__ int table[4] = {2, 3, 5, 7};

__device__ __noinline__ int descend(int v, int depth) {
  if (depth <= 0) return v + bias;
  if (v & 1) return descend(v * 3 + 1, depth - 1) + offsets[depth & 15];
  return descend(v / 2, depth - 2) ^ table[depth & 3];
}
__device__ __noinline__ int twice(int v) { return 2 * v + offsets[1]; }
__device__ __noinline__ int thrice(int v) { return 3 * v + table[2]; }
typedef int (*Function)(int);
__device__ Function functions[2] = {twice, thrice};

extern "C" __global__ void calls(const int* x, int* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = descend(x[i], x[i] % 9);
  v = functions[v & 1](v);
  if (i % 5 == 2) v += descend(v & 15, 3);
  y[i] = v;
}

extern "C" __global__ void barriers(const int* x, int* y) {
  __shared__ int shared[96];
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  shared[t] = x[i];
  __syncthreads();
  int v = shared[(t + 17) % blockDim.x];
  for (int round = 0; round < 3; round++) {
    if (blockIdx.x & 1) {
      __syncthreads();
      shared[t] = v + round;
      __syncthreads();
      v += shared[(t * 5 + 3) % blockDim.x];
    } else if (t < 40) {
      v += round;
    }
  }
  const int odd = __syncthreads_count(v & 1);
  const int all = __syncthreads_and(v > -1000000), any = __syncthreads_or(v == 12345678);
  y[i] = v + 1000 * odd + 100000 * all + 7 * any;
}

// Warps that have exited do not count at a barrier.
extern "C" __global__ void barriers_after_exit(const int* x, int* y) {
  __shared__ int shared[128];
  const int t = threadIdx.x;
  if (t >= 70) return;
  shared[t] = x[t];
  __syncthreads();
  y[t] = shared[69 - t];
}

extern "C" __global__ void named_barriers(const int* x, int* y) {
  __shared__ int shared[64];
  const int t = threadIdx.x;
  if (t < 64) {
    shared[t] = x[t] * 3;
    asm volatile("bar.arrive 1, 96;" ::: "memory");
    asm volatile("bar.sync 2, 64;" ::: "memory");
    y[t] = shared[63 - t];
  } else {
    asm volatile("bar.sync 1, 96;" ::: "memory");
    y[t] = shared[t - 64] + shared[t - 32];
  }
}

extern "C" __global__ void warp_primitives(const int* x, int* y) {
  const int lane = threadIdx.x & 31, i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = x[i];
  if (lane < 12) {
    v += __shfl_xor_sync(0xfff, v, 3) * 3;
    v += __popc(__ballot_sync(0xfff, v & 2));
  } else {
    v -= __shfl_down_sync(0xfffff000, v, 5);
    v += __any_sync(0xfffff000, v > 90) * 50;
  }
  __syncwarp();
  v += __shfl_sync(~0u, v, (lane + 3) & 31);
  if (v & 1) {
    cg::coalesced_group group = cg::coalesced_threads();
    v += group.size() * 100 + group.thread_rank() + group.shfl(v, 0);
  }
  v ^= __match_any_sync(~0u, v % 3);
#if __CUDA_ARCH__ >= 800
  v += __reduce_add_sync(~0u, lane);
#else
  v += 496;
#endif
  y[i] = v;
}

// A spin lock between lanes of one warp: needs independent thread scheduling.
extern "C" __global__ void spin(int* lock, int* y) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      y[0] = y[0] * 3 + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

// Block b waits for block b + 1.
extern "C" __global__ void wait_for_next(volatile int* flags, int* y) {
  const int next = blockIdx.x + 1;
  if (threadIdx.x == 0 && next < gridDim.x)
    while (flags[next] == 0) {
    }
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) flags[blockIdx.x] = 1;
}

extern "C" __global__ void grid_sync(int* x, int* y) {
  const int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int round = 0; round < 3; round++) {
    y[i] = x[(i + 1) % n] + x[(i + n - 7) % n];
    cg::this_grid().sync();
    x[i] = y[i] + round;
    cg::this_grid().sync();
  }
}

extern "C" __global__ void spaces(const int* x, int* y) {
  __shared__ int shared[32];
  const int t = threadIdx.x;
  int local[9];
  for (int k = 0; k < 9; k++) local[k] = k;
  for (int k = 0; k < 9; k++) local[(k * (t + 1)) % 9] = k + x[t];
  shared[t] = x[t];
  __syncthreads();
  const int* place = t % 3 == 0 ? shared : t % 3 == 1 ? x : local;
  y[t] = place[t % 9] + local[(t * 2) % 9];
}

extern "C" __global__ void indices(int* y) {
  const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  y[b * blockDim.x * blockDim.y * blockDim.z + t] =
      threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x + 10000 * blockIdx.y + 100000 * blockIdx.z;
}

extern "C" __global__ void deadlocks(int* y) {
  asm volatile("bar.sync 3, 64;" ::: "memory");
  y[threadIdx.x] = 1;
}

extern "C" __global__ void traps(const int* x, int* y) {
  if (x[threadIdx.x] > 5) __trap();
  y[threadIdx.x] = 1;
}

extern "C" __global__ void out_of_bounds(int* y, long long offset) { y[offset] = 1; }

extern "C" __global__ void endless(volatile int* y) {
  while (y[0] == 0) {
  }
}

extern "C" __global__ void prints(const int* x, int* y) {
  if (x[threadIdx.x] > 50) printf("%d\n", x[threadIdx.x]);
  assert(x[threadIdx.x] < 100);
  y[threadIdx.x] = x[threadIdx.x];
}
