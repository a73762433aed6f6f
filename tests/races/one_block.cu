// Labels: see test_kernels.py.
#define LEADER (threadIdx.x == 0)
#define SPIN(condition) \
  while (condition) __nanosleep(20)
typedef volatile int Volatile;

// ---- Barriers of a block

// 1 64 ok
__device__ void barrier(int* data, int* flag) {
  data[threadIdx.x] = threadIdx.x;
  __syncthreads();
  data[64 + threadIdx.x] = data[63 - threadIdx.x];
}
// 1 64 race: __syncthreads()
__device__ void no_barrier(int* data, int* flag) {
  data[threadIdx.x] = threadIdx.x;
  data[64 + threadIdx.x] = data[63 - threadIdx.x];
}
// 1 64 race: __syncthreads()
__device__ void no_barrier_before_the_next_write(int* data, int* flag) {
  for (int i = 0; i < 2; i++) {
    data[threadIdx.x] = i;
    __syncthreads();
    data[64 + threadIdx.x] += data[63 - threadIdx.x];
  }
}
// 1 64 ok
__device__ void barrier_before_the_next_write(int* data, int* flag) {
  for (int i = 0; i < 2; i++) {
    data[threadIdx.x] = i;
    __syncthreads();
    data[64 + threadIdx.x] += data[63 - threadIdx.x];
    __syncthreads();
  }
}
// 1 64 race: __syncthreads()
__device__ void shared_memory_without_barrier(int* data, int* flag) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;
  data[threadIdx.x] = tile[63 - threadIdx.x];
}
// 1 64 ok
__device__ void shared_memory_with_barrier(int* data, int* flag) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  data[threadIdx.x] = tile[63 - threadIdx.x];
}
// 1 128 ok
__device__ void named_barrier(int* data, int* flag) {
  if (threadIdx.x >= 64) return;
  data[threadIdx.x] = threadIdx.x;
  asm volatile("bar.sync 1, 64;" ::: "memory");
  data[64 + threadIdx.x] = data[63 - threadIdx.x];
}
// 1 128 race: not ordered
__device__ void named_barrier_of_others(int* data, int* flag) {
  data[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 64) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 64;" ::: "memory");
  }
  data[128 + threadIdx.x] = data[127 - threadIdx.x];
}
// 1 64 race: not ordered
__device__ void two_writers(int* data, int* flag) { data[0] = threadIdx.x; }
// 1 64 ok
__device__ void two_writers_of_one_value(int* data, int* flag) { data[0] = 7; }
// 1 64 race: not ordered
__device__ void increment(int* data, int* flag) { data[0]++; }
// 1 64 ok
__device__ void atomic_increment(int* data, int* flag) { atomicAdd(data, 1); }
// 1 96 race: not ordered
__device__ void third_reader(int* data, int* flag) {
  if (threadIdx.x == 95)
    data[0] = 1;
  else
    data[1 + threadIdx.x] = data[0];
}
// 1 64 race: not ordered
__device__ void barrier_in_a_loop_too_few(int* data, int* flag) {
  for (int stride = 32; stride; stride /= 2) {
    if (threadIdx.x < stride) data[threadIdx.x] += data[threadIdx.x + stride];
  }
}
// 1 64 ok
__device__ void barrier_in_a_loop(int* data, int* flag) {
  for (int stride = 32; stride; stride /= 2) {
    if (threadIdx.x < stride) data[threadIdx.x] += data[threadIdx.x + stride];
    __syncthreads();
  }
}

// ---- Warps

// 1 32 ok
__device__ void warp_barrier(int* data, int* flag) {
  data[threadIdx.x] = threadIdx.x;
  __syncwarp();
  data[32 + threadIdx.x] = data[31 - threadIdx.x];
}
// 1 32 race: __syncwarp()
__device__ void no_warp_barrier(int* data, int* flag) {
  data[threadIdx.x] = threadIdx.x;
  data[32 + threadIdx.x] = data[31 - threadIdx.x];
}
// 1 64 race: __syncthreads()
__device__ void warp_barrier_between_warps(int* data, int* flag) {
  data[threadIdx.x] = threadIdx.x;
  __syncwarp();
  data[64 + threadIdx.x] = data[63 - threadIdx.x];
}
// 1 32 race: __syncwarp()
__device__ void shuffle_orders_nothing(int* data, int* flag) {
  data[threadIdx.x] = threadIdx.x;
  __shfl_sync(0xffffffff, 1, 0);
  data[32 + threadIdx.x] = data[31 - threadIdx.x];
}
// 1 32 race: __syncwarp()
__device__ void vote_orders_nothing(int* data, int* flag) {
  data[threadIdx.x] = threadIdx.x;
  __any_sync(0xffffffff, 1);
  data[32 + threadIdx.x] = data[31 - threadIdx.x];
}
// 1 32 race: __syncwarp()
__device__ void volatile_warp_reduction(int* data, int* flag) {
  __shared__ Volatile tile[64];
  tile[threadIdx.x] = threadIdx.x;
  tile[threadIdx.x] += tile[threadIdx.x ^ 16];
  data[threadIdx.x] = tile[threadIdx.x];
}
// 1 32 ok
__device__ void warp_reduction(int* data, int* flag) {
  __shared__ int tile[32];
  tile[threadIdx.x] = threadIdx.x;
  for (int stride = 16; stride; stride /= 2) {
    __syncwarp();
    const int other = tile[threadIdx.x ^ stride];
    __syncwarp();
    tile[threadIdx.x] += other;
  }
  data[threadIdx.x] = tile[threadIdx.x];
}
// 1 32 ok
__device__ void half_warp_barrier(int* data, int* flag) {
  const unsigned mask = threadIdx.x < 16 ? 0xffff : 0xffff0000;
  data[threadIdx.x] = threadIdx.x;
  __syncwarp(mask);
  data[32 + threadIdx.x] = data[threadIdx.x ^ 15];
}
// 1 32 race: __syncwarp()
__device__ void half_warp_barrier_between_halves(int* data, int* flag) {
  const unsigned mask = threadIdx.x < 16 ? 0xffff : 0xffff0000;
  data[threadIdx.x] = threadIdx.x;
  __syncwarp(mask);
  data[32 + threadIdx.x] = data[threadIdx.x ^ 16];
}
