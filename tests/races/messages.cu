// One thread writes data and releases a flag; another reads the flag, acquires and reads the data. `writer` and
// `reader` select the two sides, in the order of WRITERS and READERS of test_messages.py.

__device__ void release(int writer, int* flag) {
  switch (writer) {
    case 0:
      __threadfence();
      *(volatile int*)flag = 1;
      break;
    case 1:
      __threadfence_block();
      *(volatile int*)flag = 1;
      break;
    case 2:
      *(volatile int*)flag = 1;
      break;
    case 3:
      __threadfence();
      atomicExch(flag, 1);
      break;
    case 4:
      __threadfence();
      atomicExch_block(flag, 1);
      break;
    case 5:
      __threadfence_block();
      atomicExch(flag, 1);
      break;
    case 6:
      atomicExch(flag, 1);
      break;
    case 7:
      asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");
      break;
    case 8:
      asm volatile("st.release.cta.global.s32 [%0], 1;" ::"l"(flag) : "memory");
      break;
    case 9:
      asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");
      break;
    case 10:
      asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(flag) : "memory");
      break;
    case 11:
      __threadfence_system();
      atomicAdd_system(flag, 1);
      break;
  }
}

__device__ int load(int* flag) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ int load_acquire(int* flag) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ int load_acquire_block(int* flag) {
  int value;
  asm volatile("ld.acquire.cta.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

__device__ void acquire(int reader, int* flag) {
  switch (reader) {
    case 0:
      while (*(volatile int*)flag == 0) {
      }
      __threadfence();
      break;
    case 1:
      while (*(volatile int*)flag == 0) {
      }
      __threadfence_block();
      break;
    case 2:
      while (*(volatile int*)flag == 0) {
      }
      break;
    case 3:
      while (atomicAdd(flag, 0) == 0) {
      }
      __threadfence();
      break;
    case 4:
      while (atomicAdd_block(flag, 0) == 0) {
      }
      __threadfence();
      break;
    case 5:
      while (atomicAdd(flag, 0) == 0) {
      }
      break;
    case 6:
      while (load_acquire(flag) == 0) {
      }
      break;
    case 7:
      while (load_acquire_block(flag) == 0) {
      }
      break;
    case 8:
      while (load(flag) == 0) {
      }
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      break;
    case 9:
      while (load(flag) == 0) {
      }
      break;
  }
}

// Launch 1 block of 64 threads, or 2 blocks of 32: the sides are in different warps, or in different blocks.
__global__ void message(int writer, int reader, int* data, int* flag, int* result) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread == 0) {
    data[0] = 42;
    release(writer, flag);
  } else if (thread == 32) {
    acquire(reader, flag);
    result[0] = data[0];
  }
}
