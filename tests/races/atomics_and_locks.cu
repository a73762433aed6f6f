// Labels: see test_kernels.py.
#define LEADER (threadIdx.x == 0)
#define SPIN(condition) \
  while (condition) __nanosleep(20)
typedef volatile int Volatile;

// ---- Atomics and volatile accesses

// 4 32 ok
__device__ void atomics_of_blocks(int* data, int* flag) { atomicAdd(&data[threadIdx.x % 4], 1); }
// 4 32 race: not atomic to other blocks
__device__ void atomics_of_scope_block(int* data, int* flag) { atomicAdd_block(&data[threadIdx.x % 4], 1); }
// 4 32 ok
__device__ void atomics_of_scope_block_on_own_words(int* data, int* flag) { atomicAdd_block(&data[blockIdx.x], 1); }
// 2 32 race: not atomic to other blocks
__device__ void atomics_of_two_scopes(int* data, int* flag) {
  if (blockIdx.x == 0)
    atomicAdd_block(data, 1);
  else
    atomicAdd(data, 1);
}
// 4 32 ok
__device__ void atomics_of_scope_system(int* data, int* flag) { atomicMax_system(data, blockIdx.x); }
// 1 64 race: not ordered
__device__ void atomic_and_plain_read(int* data, int* flag) {
  if (threadIdx.x == 40) atomicAdd(data, 1);
  if (LEADER) data[1] = data[0];
}
// 4 64 ok
__device__ void plain_read_before_a_loop_of_swaps(int* data, int* flag) {
  int old = data[0], expected;
  do {
    expected = old;
    old = atomicCAS(data, expected, expected + threadIdx.x);
  } while (old != expected);
}
// 4 64 ok
__device__ void plain_read_that_may_need_no_swap(int* data, int* flag) {
  int greatest = data[0];
  while (greatest < static_cast<int>(threadIdx.x)) greatest = atomicCAS(data, greatest, threadIdx.x);
}
// 4 64 race: data[64 + threadIdx.x] = data[0]
__device__ void plain_read_of_a_sum_by_swaps(int* data, int* flag) {
  int old = data[0], expected;
  do {
    expected = old;
    old = atomicCAS(data, expected, expected + 1);
  } while (old != expected);
  data[64 + threadIdx.x] = data[0];
}
// 1 64 race: const int old = data[0]
__device__ void plain_read_before_a_swap_that_fails(int* data, int* flag) {
  if (LEADER) {
    const int old = data[0];
    atomicCAS(data, old + 1, 5);
  } else if (threadIdx.x == 40) {
    data[0] = 7;
  }
}
// 1 64 race: not ordered
__device__ void atomic_and_plain_write(int* data, int* flag) {
  if (threadIdx.x == 40) atomicAdd(data, 1);
  if (LEADER) data[0] = 5;
}
// 2 32 race: not ordered
__device__ void atomic_and_plain_write_of_blocks(int* data, int* flag) {
  if (LEADER && blockIdx.x == 0) data[0] = 0;
  atomicAdd(data, 1);
}
// 1 64 ok
__device__ void atomic_then_barrier_then_read(int* data, int* flag) {
  atomicAdd(data, 1);
  __syncthreads();
  data[1 + threadIdx.x] = data[0];
}
// 1 64 ok
__device__ void shared_histogram(int* data, int* flag) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[threadIdx.x % 8], 1);
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(&data[threadIdx.x], bins[threadIdx.x]);
}
// 1 64 race: not ordered
__device__ void shared_histogram_without_atomics(int* data, int* flag) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  bins[threadIdx.x % 8]++;
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(&data[threadIdx.x], bins[threadIdx.x]);
}
// 1 64 race: not ordered
__device__ void shared_histogram_not_cleared_in_time(int* data, int* flag) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  atomicAdd(&bins[threadIdx.x % 8], 1);
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(&data[threadIdx.x], bins[threadIdx.x]);
}
// 2 32 race: not ordered
__device__ void volatile_writes_of_two_values(int* data, int* flag) {
  if (LEADER) *(Volatile*)data = 1 + blockIdx.x;
}
// 2 32 ok
__device__ void volatile_writes_of_one_value(int* data, int* flag) {
  if (LEADER) *(Volatile*)data = 1;
}
// 2 32 race: not ordered
__device__ void volatile_write_and_plain_read(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0)
    *(Volatile*)data = 1;
  else
    data[1] = data[0];
}
// 2 32 race: not ordered
__device__ void volatile_write_and_plain_write(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0)
    *(Volatile*)data = 1;
  else
    data[0] = 2;
}
// 2 32 ok
__device__ void volatile_flag_is_reset_by_its_reader(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    __threadfence();
    *(Volatile*)flag = 1;
  } else {
    SPIN(*(Volatile*)flag == 0);
    __threadfence();
    data[1] = data[0];
    *(Volatile*)flag = 0;
  }
}
// 2 32 race: volatile write and atomic are not ordered
__device__ void volatile_write_and_atomic_write(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0)
    atomicExch(data, 1);
  else
    *(Volatile*)data = 2;
}
// 2 32 missed: a volatile read and a volatile write, of which nothing says that they are no flag
__device__ void volatile_data_without_synchronisation(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0)
    *(Volatile*)data = 2;
  else
    data[1] = *(Volatile*)data;
}

// ---- Locks

#define LOCKED(LOCK, ACQUIRE, RELEASE, UNLOCK) \
  if (LEADER) {                                \
    SPIN(LOCK != 0);                           \
    ACQUIRE;                                   \
    data[0]++;                                 \
    RELEASE;                                   \
    UNLOCK;                                    \
  }
// 4 32 ok
__device__ void lock(int* data, int* flag) {
  LOCKED(atomicCAS(flag, 0, 1), __threadfence(), __threadfence(), atomicExch(flag, 0));
}
// 4 32 race: no fence (acquire)
__device__ void lock_without_acquire(int* data, int* flag) {
  LOCKED(atomicCAS(flag, 0, 1), , __threadfence(), atomicExch(flag, 0));
}
// 4 32 race: no fence (release)
__device__ void lock_without_release(int* data, int* flag) {
  LOCKED(atomicCAS(flag, 0, 1), __threadfence(), , atomicExch(flag, 0));
}
// 4 32 race: no fence (release)
__device__ void lock_without_fences(int* data, int* flag) { LOCKED(atomicCAS(flag, 0, 1), , , atomicExch(flag, 0)); }
// 4 32 race: scope block
__device__ void lock_with_acquire_of_scope_block(int* data, int* flag) {
  LOCKED(atomicCAS(flag, 0, 1), __threadfence_block(), __threadfence(), atomicExch(flag, 0));
}
// 4 32 race: scope block
__device__ void lock_with_release_of_scope_block(int* data, int* flag) {
  LOCKED(atomicCAS(flag, 0, 1), __threadfence(), __threadfence_block(), atomicExch(flag, 0));
}
// 4 32 race: not atomic to other blocks
__device__ void lock_of_scope_block(int* data, int* flag) {
  LOCKED(atomicCAS_block(flag, 0, 1), __threadfence(), __threadfence(), atomicExch_block(flag, 0));
}
// 4 32 race: scope block
__device__ void unlock_of_scope_block(int* data, int* flag) {
  LOCKED(atomicCAS(flag, 0, 1), __threadfence(), __threadfence(), atomicExch_block(flag, 0));
}
// 4 32 ok
__device__ void unlock_by_a_volatile_write(int* data, int* flag) {
  LOCKED(atomicCAS(flag, 0, 1), __threadfence(), __threadfence(), *(Volatile*)flag = 0);
}
// 4 32 ok
__device__ void unlock_by_st_release(int* data, int* flag) {
  LOCKED(atomicCAS(flag, 0, 1), __threadfence(), ,
         asm volatile("st.release.gpu.global.s32 [%0], 0;" ::"l"(flag) : "memory"));
}
// 4 32 race: not ordered
__device__ void lock_of_another_word(int* data, int* flag) {
  LOCKED(atomicCAS(flag + blockIdx.x, 0, 1), __threadfence(), __threadfence(), atomicExch(flag + blockIdx.x, 0));
}
// 4 32 race: not ordered
__device__ void write_without_the_lock(int* data, int* flag) {
  if (LEADER && blockIdx.x == 3)
    data[0] = 100;
  else
    LOCKED(atomicCAS(flag, 0, 1), __threadfence(), __threadfence(), atomicExch(flag, 0));
}
// 4 32 race: not ordered
__device__ void read_without_the_lock(int* data, int* flag) {
  if (LEADER && blockIdx.x == 0)
    data[1] = data[0];
  else
    LOCKED(atomicCAS(flag, 0, 1), __threadfence(), __threadfence(), atomicExch(flag, 0));
}
// 4 32 race: not ordered
__device__ void write_after_the_unlock(int* data, int* flag) {
  LOCKED(atomicCAS(flag, 0, 1), __threadfence(), __threadfence(), atomicExch(flag, 0));
  if (LEADER) data[0] = blockIdx.x;
}
#define LOCKED_IN_BLOCK(ACQUIRE, RELEASE)   \
  bool done = false;                        \
  while (!done) {                           \
    if (atomicCAS_block(flag, 0, 1) == 0) { \
      ACQUIRE;                              \
      data[0]++;                            \
      RELEASE;                              \
      atomicExch_block(flag, 0);            \
      done = true;                          \
    }                                       \
  }
// 1 64 ok
__device__ void lock_in_a_block(int* data, int* flag) { LOCKED_IN_BLOCK(__threadfence_block(), __threadfence_block()); }
// 1 64 race: no fence (acquire)
__device__ void lock_in_a_block_without_acquire(int* data, int* flag) { LOCKED_IN_BLOCK(, __threadfence_block()); }
// 1 64 race: no fence (release) separates
__device__ void lock_in_a_block_without_release(int* data, int* flag) { LOCKED_IN_BLOCK(__threadfence_block(), ); }
// 1 64 race: no fence (release) separates
__device__ void lock_in_a_block_without_fences(int* data, int* flag) { LOCKED_IN_BLOCK(, ); }
