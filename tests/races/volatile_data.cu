// Labels: see test_kernels.py. Volatile data beside atomics, locks and flags.
#define LEADER (threadIdx.x == 0)
#define SPIN(condition) \
  while (condition) __nanosleep(20)
typedef volatile int Volatile;

// ---- Atomics and volatile writes

// 2 64 race: volatile write and atomic are not ordered
__device__ void atomic_overwritten(int* data, int* flag) {
  if (blockIdx.x == 0 && LEADER) atomicAdd(data, 5);
  if (blockIdx.x == 1 && LEADER) *(Volatile*)data = 1;
}
// 1 64 race: volatile write and atomic are not ordered
__device__ void atomic_of_another_warp_overwritten(int* data, int* flag) {
  if (threadIdx.x == 0) atomicMax(data, 7);
  if (threadIdx.x == 32) *(Volatile*)data = 3;
}
// 1 64 ok
__device__ void atomic_then_barrier_then_volatile_write(int* data, int* flag) {
  if (threadIdx.x == 40) atomicAdd(data, 5);
  __syncthreads();
  if (LEADER) *(Volatile*)data = 0;
}
// 2 32 ok
__device__ void atomic_of_the_value_that_is_there(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0)
    atomicMax(data, 0);
  else
    *(Volatile*)data = 1;
}
// 2 32 ok
__device__ void flag_set_by_an_atomic_and_cleared_by_its_reader(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    atomicExch(flag, 1);
  } else {
    SPIN(*(Volatile*)flag == 0);
    *(Volatile*)flag = 0;
  }
}
// 2 32 ok
__device__ void flag_taken_by_a_compare_and_swap(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    *(Volatile*)flag = 1;
  } else {
    SPIN(atomicCAS(flag, 1, 2) != 1);
    *(Volatile*)flag = 0;
  }
}
// 4 32 ok
__device__ void counter_cleared_by_the_last_block(int* data, int* flag) {
  if (LEADER && atomicAdd(flag, 1) == gridDim.x - 1) *(Volatile*)flag = 0;
}
// 4 32 ok
__device__ void ticket_lock(int* data, int* flag) {
  if (!LEADER) return;
  const int ticket = atomicAdd(flag, 1);
  SPIN(*(Volatile*)(flag + 1) != ticket);
  __threadfence();
  data[0] += ticket;
  __threadfence();
  *(Volatile*)(flag + 1) = ticket + 1;
}
// 4 32 race: no fence (acquire)
__device__ void ticket_lock_without_acquire(int* data, int* flag) {
  if (!LEADER) return;
  const int ticket = atomicAdd(flag, 1);
  SPIN(*(Volatile*)(flag + 1) != ticket);
  data[0] += ticket;
  __threadfence();
  *(Volatile*)(flag + 1) = ticket + 1;
}

// ---- Volatile data under a lock

#define LOCKED(...)                   \
  {                                   \
    SPIN(atomicCAS(flag, 0, 1) != 0); \
    __threadfence();                  \
    __VA_ARGS__;                      \
    __threadfence();                  \
    atomicExch(flag, 0);              \
  }
// 4 32 ok
__device__ void volatile_data_under_a_lock(int* data, int* flag) {
  if (LEADER) LOCKED(*(Volatile*)data = *(Volatile*)data + 1);
}
// 2 32 race: not ordered
__device__ void volatile_data_written_after_the_unlock(int* data, int* flag) {
  if (!LEADER) return;
  LOCKED(data[1 + blockIdx.x] = *(Volatile*)data);
  if (blockIdx.x == 0) *(Volatile*)data = 7;
}
// 2 32 ok
__device__ void volatile_data_written_under_the_lock_again(int* data, int* flag) {
  if (!LEADER) return;
  LOCKED(data[1 + blockIdx.x] = *(Volatile*)data);
  if (blockIdx.x == 0) LOCKED(*(Volatile*)data = 7);
}
// 4 32 ok
__device__ void queue_that_is_looked_at_before_the_lock(int* data, int* flag) {
  if (!LEADER) return;
  if (*(Volatile*)data < 3) LOCKED(if (*(Volatile*)data < 3) * (Volatile*)data = *(Volatile*)data + 1);
}
// 4 32 ok
__device__ void largest_by_compare_and_swap(int* data, int* flag) {
  if (!LEADER) return;
  int seen = *(Volatile*)data;
  while (seen < int(blockIdx.x)) {
    const int old = atomicCAS(data, seen, blockIdx.x);
    if (old == seen) break;
    seen = old;
  }
}

// ---- Volatile data that is handed over by a flag

#define HAND_OVER(AGAIN, WRITE)    \
  if (!LEADER) return;             \
  if (blockIdx.x == 0) {           \
    data[1] = *(Volatile*)data;    \
    __threadfence();               \
    atomicExch(flag, 1);           \
    AGAIN;                         \
  } else {                         \
    SPIN(atomicAdd(flag, 0) == 0); \
    WRITE;                         \
  }
// 2 32 ok
__device__ void handed_over(int* data, int* flag) { HAND_OVER(, *(Volatile*)data = 1); }
// 2 32 race: not ordered
__device__ void read_after_it_was_handed_over(int* data, int* flag) {
  HAND_OVER(data[2] = *(Volatile*)data, *(Volatile*)data = 1);
}
// 2 32 ok
__device__ void polled_after_it_was_handed_over(int* data, int* flag) {
  HAND_OVER(SPIN(*(Volatile*)data == 0), *(Volatile*)data = 1);
}
// 4 32 ok
__device__ void barrier_of_two_senses(int* data, int* flag) {
  if (!LEADER) return;
  for (int round = 0; round < 3; round++) {
    const int sense = *(Volatile*)(flag + 1);
    data[8 + blockIdx.x] = round;
    __threadfence();
    if (atomicAdd(flag, 1) == gridDim.x - 1) {
      *(Volatile*)flag = 0;
      __threadfence();
      *(Volatile*)(flag + 1) = !sense;
    } else {
      SPIN(*(Volatile*)(flag + 1) == sense);
    }
    __threadfence();
    if (data[8 + (blockIdx.x + 1) % gridDim.x] != round) data[0] = 1;
    __threadfence();
    if (atomicAdd(flag + 2, 1) == gridDim.x - 1) {
      *(Volatile*)(flag + 2) = 0;
      __threadfence();
      *(Volatile*)(flag + 3) = round + 1;
    } else {
      SPIN(*(Volatile*)(flag + 3) != round + 1);
    }
    __threadfence();
  }
}
// 4 32 ok
__device__ void arrival_and_departure_arrays(int* data, int* flag) {
  if (!LEADER) return;
  for (int round = 1; round <= 3; round++) {
    data[8 + blockIdx.x] = round;
    __threadfence();
    *(Volatile*)(flag + blockIdx.x) = round;
    if (blockIdx.x == 0)
      for (int i = 0; i < int(gridDim.x); i++) SPIN(*(Volatile*)(flag + i) != round);
    if (blockIdx.x == 0)
      for (int i = 0; i < int(gridDim.x); i++) __threadfence(), *(Volatile*)(flag + 32 + i) = round;
    SPIN(*(Volatile*)(flag + 32 + blockIdx.x) != round);
    __threadfence();
    if (data[8 + (blockIdx.x + round) % gridDim.x] < round) data[0] = 1;
    __threadfence();
    atomicAdd(flag + 16, 1);
    SPIN(*(Volatile*)(flag + 16) < int(gridDim.x) * round);
    __threadfence();
  }
}
// 2 32 ok
__device__ void ring_of_two_slots(int* data, int* flag) {
  if (!LEADER) return;
  for (int i = 0; i < 6; i++) {
    Volatile* slot = data + i % 2;
    Volatile* full = flag + i % 2;
    if (blockIdx.x == 0) {
      SPIN(*full != 0);
      __threadfence();
      *slot = i;
      __threadfence();
      *full = 1;
    } else {
      SPIN(*full != 1);
      __threadfence();
      data[8 + i] = *slot;
      __threadfence();
      *full = 0;
    }
  }
}
// 4 32 ok
__device__ void search_that_stops_early(int* data, int* flag) {
  for (int i = 0; i < 8; i++) {
    if (*(Volatile*)flag) return;
    if (blockIdx.x == 2 && threadIdx.x == i) *(Volatile*)flag = 1;
  }
}
