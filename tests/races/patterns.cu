// Labels: see test_kernels.py.
#define LEADER (threadIdx.x == 0)
#define SPIN(condition) \
  while (condition) __nanosleep(20)
typedef volatile int Volatile;

// ---- Patterns across blocks

__device__ int add_acq_rel(int* flag) {
  int old;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(old) : "l"(flag) : "memory");
  return old;
}
__device__ int add_release(int* flag) {
  int old;
  asm volatile("atom.release.gpu.global.add.s32 %0, [%1], 1;" : "=r"(old) : "l"(flag) : "memory");
  return old;
}

#define LAST_BLOCK(RELEASE, COUNT, ACQUIRE, TYPE)                                                       \
  data[1 + blockIdx.x * blockDim.x + threadIdx.x] = 1;                                                  \
  RELEASE;                                                                                              \
  __syncthreads();                                                                                      \
  const bool last = __syncthreads_or(LEADER && COUNT == gridDim.x - 1);                                 \
  if (last) {                                                                                           \
    ACQUIRE;                                                                                            \
    int sum = 0;                                                                                        \
    for (int i = threadIdx.x; i < gridDim.x * blockDim.x; i += blockDim.x) sum += ((TYPE*)data)[1 + i]; \
    atomicAdd(data, sum);                                                                               \
    if (LEADER) flag[0] = 0;                                                                            \
  }
// 8 32 ok
__device__ void last_block(int* data, int* flag) {
  LAST_BLOCK(__threadfence(), atomicAdd(flag, 1), __threadfence(), int);
}
// 8 32 ok
__device__ void last_block_with_volatile_reads(int* data, int* flag) {
  LAST_BLOCK(__threadfence(), atomicAdd(flag, 1), , Volatile);
}
// 8 32 race: no fence (acquire)
__device__ void last_block_without_acquire(int* data, int* flag) {
  LAST_BLOCK(__threadfence(), atomicAdd(flag, 1), , int);
}
// 8 32 race: not ordered
__device__ void last_block_without_release(int* data, int* flag) {
  LAST_BLOCK(, atomicAdd(flag, 1), __threadfence(), int);
}
// 8 32 race: scope block
__device__ void last_block_with_fence_of_scope_block(int* data, int* flag) {
  LAST_BLOCK(__threadfence_block(), atomicAdd(flag, 1), __threadfence(), int);
}
// 8 32 race: scope block
__device__ void last_block_with_acquire_of_scope_block(int* data, int* flag) {
  LAST_BLOCK(__threadfence(), atomicAdd(flag, 1), __threadfence_block(), int);
}
// 8 32 ok
__device__ void last_block_with_atom_acq_rel(int* data, int* flag) { LAST_BLOCK(, add_acq_rel(flag), , int); }
// 8 32 race: no fence (acquire)
__device__ void last_block_with_atom_release(int* data, int* flag) { LAST_BLOCK(, add_release(flag), , int); }

#define LOOK_BACK(RELEASE, ACQUIRE)                 \
  if (LEADER) {                                     \
    int prefix = 0;                                 \
    if (blockIdx.x) {                               \
      SPIN(*(Volatile*)&flag[blockIdx.x - 1] == 0); \
      ACQUIRE;                                      \
      prefix = data[blockIdx.x - 1];                \
    }                                               \
    data[blockIdx.x] = prefix + 1;                  \
    RELEASE;                                        \
    *(Volatile*)&flag[blockIdx.x] = 1;              \
  }
// 16 32 ok
__device__ void chained_scan(int* data, int* flag) { LOOK_BACK(__threadfence(), __threadfence()); }
// 16 32 race: no fence (acquire)
__device__ void chained_scan_without_acquire(int* data, int* flag) { LOOK_BACK(__threadfence(), ); }
// 16 32 race: not ordered
__device__ void chained_scan_without_release(int* data, int* flag) { LOOK_BACK(, __threadfence()); }
// 16 32 race: scope block
__device__ void chained_scan_with_release_of_scope_block(int* data, int* flag) {
  LOOK_BACK(__threadfence_block(), __threadfence());
}
// 16 32 ok
__device__ void look_back_with_packed_status(int* data, int* flag) {
  if (!LEADER) return;
  int sum = 1;
  *(Volatile*)&data[blockIdx.x] = 1 << 16 | sum;
  for (int other = int(blockIdx.x) - 1; other >= 0; other--) {
    int status;
    SPIN((status = *(Volatile*)&data[other]) == 0);
    sum += status & 0xffff;
    if (status >> 16 == 2) break;
  }
  *(Volatile*)&data[blockIdx.x] = 2 << 16 | sum;
}
// 16 32 ok
__device__ void tickets(int* data, int* flag) {
  __shared__ int ticket;
  if (LEADER) ticket = atomicAdd(flag, 1);
  __syncthreads();
  data[ticket * blockDim.x + threadIdx.x] = ticket;
}
// 16 32 race: not ordered
__device__ void tickets_without_barrier(int* data, int* flag) {
  __shared__ int ticket;
  if (LEADER) ticket = atomicAdd(flag, 1);
  data[ticket * blockDim.x + threadIdx.x] = ticket;
}
#define SEMAPHORE(ACQUIRE, RELEASE)       \
  if (LEADER) {                           \
    SPIN(*(Volatile*)flag != blockIdx.x); \
    ACQUIRE;                              \
  }                                       \
  __syncthreads();                        \
  data[threadIdx.x] += blockIdx.x;        \
  __syncthreads();                        \
  if (LEADER) {                           \
    RELEASE;                              \
    atomicAdd(flag, 1);                   \
  }
// 6 32 ok
__device__ void semaphore(int* data, int* flag) { SEMAPHORE(__threadfence(), __threadfence()); }
// 6 32 race: no fence (acquire)
__device__ void semaphore_without_acquire(int* data, int* flag) { SEMAPHORE(, __threadfence()); }
// 6 32 race: not ordered
__device__ void semaphore_without_release(int* data, int* flag) { SEMAPHORE(__threadfence(), ); }
// 6 32 race: scope block
__device__ void semaphore_with_release_of_scope_block(int* data, int* flag) {
  SEMAPHORE(__threadfence(), __threadfence_block());
}
#define GRID_BARRIER(RELEASE, ACQUIRE)             \
  data[blockIdx.x * blockDim.x + threadIdx.x] = 1; \
  __syncthreads();                                 \
  if (LEADER) {                                    \
    RELEASE;                                       \
    atomicAdd(flag, 1);                            \
    SPIN(*(Volatile*)flag < gridDim.x);            \
    ACQUIRE;                                       \
  }                                                \
  __syncthreads();                                 \
  data[256 + blockIdx.x * blockDim.x + threadIdx.x] = data[((blockIdx.x + 1) % gridDim.x) * blockDim.x + threadIdx.x];
// 4 32 ok
__device__ void grid_barrier(int* data, int* flag) { GRID_BARRIER(__threadfence(), __threadfence()); }
// 4 32 race: no fence (acquire)
__device__ void grid_barrier_without_acquire(int* data, int* flag) { GRID_BARRIER(__threadfence(), ); }
// 4 32 race: not ordered
__device__ void grid_barrier_without_release(int* data, int* flag) { GRID_BARRIER(, __threadfence()); }
// 4 32 race: scope block
__device__ void grid_barrier_with_fences_of_scope_block(int* data, int* flag) {
  GRID_BARRIER(__threadfence_block(), __threadfence_block());
}

// ---- A release and an acquire order their own word only

__device__ int read_relaxed(int* at) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ int read_acquire(int* at) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ inline void write_relaxed(int* at, int value) {
  asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ inline void write_release(int* at, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
#define MESSAGE(WRITE, READ)     \
  if (threadIdx.x) return;       \
  if (blockIdx.x == 0) {         \
    WRITE;                       \
  } else {                       \
    while (!read_relaxed(flag)); \
    READ;                        \
    data[1] = data[0];           \
  }
// 2 32 ok
__device__ void acquire_of_the_word(int* data, int* flag) {
  MESSAGE(data[0] = 1; write_release(flag, 1), read_acquire(flag))
}
// 2 32 race: no fence (acquire) follows the read
__device__ void acquire_of_another_word(int* data, int* flag) {
  MESSAGE(data[0] = 1; write_release(flag, 1), read_acquire(flag + 8))
}
// 2 32 ok
__device__ void release_of_the_word_before(int* data, int* flag) {
  MESSAGE(data[0] = 1; write_release(flag, 0); write_relaxed(flag, 1), read_acquire(flag))
}
// 2 32 race: not ordered
__device__ void release_of_another_word(int* data, int* flag) {
  MESSAGE(data[0] = 1; write_release(flag + 8, 1); write_relaxed(flag, 1), read_acquire(flag))
}
// 2 32 race: the access of the other thread follows the release of the flag
__device__ void write_after_the_release(int* data, int* flag) {
  MESSAGE(write_release(flag, 1); data[0] = 1, read_acquire(flag))
}
// 2 32 ok
__device__ void swap_that_releases(int* data, int* flag) {
  MESSAGE(data[0] = 1; __threadfence(); atomicCAS(flag, 0, 1), read_acquire(flag))
}
// 2 32 race: not ordered
__device__ void swap_that_fails_and_so_releases_nothing(int* data, int* flag) {
  MESSAGE(write_relaxed(flag, 1); data[0] = 1; __threadfence(); atomicCAS(flag, 5, 6), read_acquire(flag))
}
