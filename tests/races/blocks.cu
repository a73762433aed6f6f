// Labels: see test_kernels.py.
#define LEADER (threadIdx.x == 0)
#define SPIN(condition) \
  while (condition) __nanosleep(20)
typedef volatile int Volatile;

// ---- Blocks

// 2 32 race: blocks run in no defined order
__device__ void blocks_write_one_element(int* data, int* flag) {
  if (LEADER) data[0] = blockIdx.x;
}
// 2 32 race: blocks run in no defined order
__device__ void block_reads_another(int* data, int* flag) {
  if (LEADER) data[blockIdx.x] = data[1 - blockIdx.x] + 1;
}
// 2 32 race: blocks run in no defined order
__device__ void barrier_does_not_order_blocks(int* data, int* flag) {
  data[blockIdx.x * 32 + threadIdx.x] = 1;
  __syncthreads();
  data[64 + blockIdx.x * 32 + threadIdx.x] = data[(1 - blockIdx.x) * 32 + threadIdx.x];
}
// 2 32 race: blocks run in no defined order
__device__ void fence_alone_orders_nothing(int* data, int* flag) {
  data[blockIdx.x * 32 + threadIdx.x] = 1;
  __threadfence();
  data[64 + blockIdx.x * 32 + threadIdx.x] = data[(1 - blockIdx.x) * 32 + threadIdx.x];
}
// 3 32 race: not ordered
__device__ void fence_and_another_flag(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence();
    atomicExch(&flag[0], 1);
  } else if (blockIdx.x == 1) {
    SPIN(atomicAdd(&flag[1], 0) == 0);
    __threadfence();
    data[1] = data[0];
  } else {
    atomicExch(&flag[1], 1);
  }
}
// 3 32 ok
__device__ void released_in_a_chain(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x) SPIN(atomicAdd(&flag[blockIdx.x - 1], 0) == 0);
  __threadfence();
  if (blockIdx.x)
    data[blockIdx.x] = data[0];
  else
    data[0] = 1;
  __threadfence();
  atomicExch(&flag[blockIdx.x], 1);
}
// 3 32 race: no fence (acquire)
__device__ void chain_without_acquire(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x) SPIN(atomicAdd(&flag[blockIdx.x - 1], 0) == 0);
  if (blockIdx.x)
    data[blockIdx.x] = data[0];
  else
    data[0] = 1;
  __threadfence();
  atomicExch(&flag[blockIdx.x], 1);
}
// 2 32 ok
__device__ void update_continues_the_release(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence();
    atomicExch(flag, 1);
    atomicAdd(flag, 1);
  } else {
    SPIN(atomicAdd(flag, 0) < 2);
    __threadfence();
    data[1] = data[0];
  }
}
// 3 32 race: not ordered
__device__ void store_ends_the_release(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence();
    *(Volatile*)flag = 1;
  } else if (blockIdx.x == 1) {
    SPIN(*(Volatile*)flag != 1);
    *(Volatile*)flag = 2;
  } else {
    SPIN(*(Volatile*)flag != 2);
    __threadfence();
    data[1] = data[0];
  }
}
// 2 32 race: not ordered
__device__ void write_after_the_fence(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    __threadfence();
    data[0] = 1;
    atomicExch(flag, 1);
  } else {
    SPIN(atomicAdd(flag, 0) == 0);
    __threadfence();
    data[1] = data[0];
  }
}
// 2 32 race: not ordered
__device__ void write_after_the_release(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    __threadfence();
    atomicExch(flag, 1);
    data[0] = 1;
  } else {
    SPIN(atomicAdd(flag, 0) == 0);
    __threadfence();
    data[0] = 2;
  }
}
// 2 64 ok
__device__ void barrier_then_release(int* data, int* flag) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 1;
    __threadfence();
    __syncthreads();
    if (LEADER) atomicExch(flag, 1);
  } else {
    if (LEADER) SPIN(atomicAdd(flag, 0) == 0);
    __syncthreads();
    __threadfence();
    data[64 + threadIdx.x] = data[63 - threadIdx.x];
  }
}
// 2 64 ok
__device__ void barrier_then_fence_and_release(int* data, int* flag) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 1;
    __syncthreads();
    if (LEADER) __threadfence(), atomicExch(flag, 1);
  } else {
    if (LEADER) {
      SPIN(atomicAdd(flag, 0) == 0);
      __threadfence();
    }
    __syncthreads();
    data[64 + threadIdx.x] = data[63 - threadIdx.x];
  }
}
// 2 64 race: not ordered
__device__ void release_without_barrier(int* data, int* flag) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 1;
    if (LEADER) __threadfence(), atomicExch(flag, 1);
  } else {
    if (LEADER) SPIN(atomicAdd(flag, 0) == 0);
    __syncthreads();
    __threadfence();
    data[64 + threadIdx.x] = data[63 - threadIdx.x];
  }
}
// 2 64 race: not ordered
__device__ void acquire_without_barrier(int* data, int* flag) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 1;
    __syncthreads();
    if (LEADER) __threadfence(), atomicExch(flag, 1);
  } else {
    if (LEADER) SPIN(atomicAdd(flag, 0) == 0);
    __threadfence();
    data[64 + threadIdx.x] = data[63 - threadIdx.x];
  }
}
// 2 64 race: no fence (acquire)
__device__ void barrier_without_acquire(int* data, int* flag) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 1;
    __syncthreads();
    if (LEADER) __threadfence(), atomicExch(flag, 1);
  } else {
    if (LEADER) SPIN(atomicAdd(flag, 0) == 0);
    __syncthreads();
    data[64 + threadIdx.x] = data[63 - threadIdx.x];
  }
}
// 2 64 race: has scope block
__device__ void fence_of_scope_block_between_blocks(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence_block();
    atomicExch(flag, 1);
  } else {
    SPIN(atomicAdd(flag, 0) == 0);
    __threadfence();
    data[1] = data[0];
  }
}
// 2 64 race: the release at line
__device__ void release_of_scope_block_between_blocks(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence();
    atomicExch_block(flag, 1);
  } else {
    SPIN(*(Volatile*)flag == 0);
    __threadfence();
    data[1] = data[0];
  }
}
// 2 64 race: the fence after the read of the flag has scope block
__device__ void acquire_of_scope_block_between_blocks(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence();
    atomicExch(flag, 1);
  } else {
    SPIN(atomicAdd(flag, 0) == 0);
    __threadfence_block();
    data[1] = data[0];
  }
}
