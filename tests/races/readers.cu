// Labels: see test_kernels.py. Words with several readers, of which a later write is ordered after some.
#define LEADER (threadIdx.x == 0)
#define SPIN(condition) \
  while (condition) __nanosleep(20)
typedef volatile int Volatile;

#define BARRIER(ID, THREADS) asm volatile("bar.sync %0, %1;" ::"r"(ID), "r"(THREADS) : "memory")

// 1 96 race: not ordered
__device__ void third_warp_reads(int* data, int* flag) {
  data[8 + threadIdx.x] = data[0];
  if (threadIdx.x < 64) BARRIER(1, 64);
  if (LEADER) data[0] = 1;
}
// 1 96 ok
__device__ void third_warp_waits_too(int* data, int* flag) {
  data[8 + threadIdx.x] = data[0];
  BARRIER(1, 96);
  if (LEADER) data[0] = 1;
}
// 1 128 race: not ordered
__device__ void fourth_warp_reads_shared_memory(int* data, int* flag) {
  __shared__ int tile[32];
  if (threadIdx.x < 32) tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  data[threadIdx.x] = tile[threadIdx.x % 32];
  if (threadIdx.x < 96) BARRIER(1, 96);
  if (threadIdx.x < 32) tile[threadIdx.x] = 7 * threadIdx.x;
}
// 1 128 ok
__device__ void fourth_warp_reads_shared_memory_and_waits(int* data, int* flag) {
  __shared__ int tile[32];
  if (threadIdx.x < 32) tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  data[threadIdx.x] = tile[threadIdx.x % 32];
  BARRIER(1, 128);
  if (threadIdx.x < 32) tile[threadIdx.x] = 7 * threadIdx.x;
}
// 1 32 race: __syncwarp()
__device__ void third_lane_reads(int* data, int* flag) {
  if (threadIdx.x < 3) data[8 + threadIdx.x] = data[0];
  if (threadIdx.x < 2) __syncwarp(3);
  if (LEADER) data[0] = 1;
}
// 1 32 ok
__device__ void third_lane_takes_part(int* data, int* flag) {
  if (threadIdx.x < 3) data[8 + threadIdx.x] = data[0];
  if (threadIdx.x < 3) __syncwarp(7);
  if (LEADER) data[0] = 1;
}
// 1 96 race: not ordered
__device__ void reader_of_another_step(int* data, int* flag) {
  for (int step = 0; step < 4; step++) {
    const bool skips = step == 2 && threadIdx.x >= 64;
    data[8 + threadIdx.x] = data[step];
    if (!skips) BARRIER(step == 2 ? 2 : 1, step == 2 ? 64 : 96);
    if (LEADER) data[step] = 1;
  }
}
// 1 96 ok
__device__ void readers_of_every_step_wait(int* data, int* flag) {
  for (int step = 0; step < 4; step++) {
    data[8 + threadIdx.x] = data[0];
    BARRIER(1, 96);
    if (LEADER) data[0] = step;
    BARRIER(1, 96);
  }
}
// 1 96 race: not ordered
__device__ void bytes_of_a_word(int* data, int* flag) {
  char* bytes = (char*)data;
  if (threadIdx.x % 32 == 0) data[8 + threadIdx.x] = bytes[threadIdx.x / 32];
  if (threadIdx.x < 64) BARRIER(1, 64);
  if (LEADER) bytes[2] = 1;
}
// 1 96 ok
__device__ void other_bytes_of_a_word(int* data, int* flag) {
  char* bytes = (char*)data;
  if (threadIdx.x % 32 == 0) data[8 + threadIdx.x] = bytes[threadIdx.x / 32];
  if (threadIdx.x < 64) BARRIER(1, 64);
  if (LEADER) bytes[3] = 1;
}

// Block 0 writes again after consumers of its first value have answered.
#define CONSUMERS(ANSWERS)                             \
  if (!LEADER) return;                                 \
  if (blockIdx.x == 0) {                               \
    data[0] = 1;                                       \
    __threadfence();                                   \
    *(Volatile*)flag = 1;                              \
    SPIN(*(Volatile*)(flag + 1) < ANSWERS);            \
    __threadfence();                                   \
    data[0] = 2;                                       \
  } else {                                             \
    SPIN(*(Volatile*)flag == 0);                       \
    __threadfence();                                   \
    data[8 + blockIdx.x] = data[0];                    \
    __threadfence();                                   \
    if (blockIdx.x <= ANSWERS) atomicAdd(flag + 1, 1); \
  }
// 4 32 ok
__device__ void all_consumers_answer(int* data, int* flag) { CONSUMERS(3); }
// 4 32 race: not ordered
__device__ void one_of_three_consumers_answers(int* data, int* flag) { CONSUMERS(1); }
// 4 32 race: not ordered
__device__ void two_of_three_consumers_answer(int* data, int* flag) { CONSUMERS(2); }
