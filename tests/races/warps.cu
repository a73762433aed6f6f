// Labels: see test_kernels.py. Warp operations whose masks name lanes that do not call them, and lanes that may exit.
#define ALL 0xffffffff

// 1 32 diverges: does not call it
__device__ void shuffle_by_half_a_warp(int* data, int* flag) {
  int value = data[threadIdx.x];
  if (threadIdx.x < 16) value += __shfl_xor_sync(ALL, value, 8);
  data[threadIdx.x] = value;
}
// 1 32 ok
__device__ void shuffle_by_half_a_warp_with_its_mask(int* data, int* flag) {
  int value = data[threadIdx.x];
  if (threadIdx.x < 16) value += __shfl_xor_sync(0xffff, value, 8);
  data[threadIdx.x] = value;
}
// 1 32 diverges: does not call it
__device__ void shuffle_in_one_branch(int* data, int* flag) {
  if (threadIdx.x < 16)
    data[threadIdx.x] = __shfl_xor_sync(ALL, data[threadIdx.x], 8);
  else
    data[threadIdx.x] = 3;
}
// 1 32 ok
__device__ void shuffle_before_the_branch(int* data, int* flag) {
  const int other = __shfl_xor_sync(ALL, data[threadIdx.x], 8);
  if (threadIdx.x < 16)
    data[threadIdx.x] = other;
  else
    data[threadIdx.x] = 3;
}
// 1 32 diverges: does not call it
__device__ void warp_barrier_in_one_branch(int* data, int* flag) {
  if (threadIdx.x % 2) __syncwarp();
  data[threadIdx.x] = 1;
}
// 1 32 diverges: does not call it
__device__ void vote_in_one_branch(int* data, int* flag) {
  int any = 0;
  if (threadIdx.x < 31) any = __any_sync(ALL, data[threadIdx.x]);
  data[threadIdx.x] = any;
}
// 1 32 diverges: does not call it
__device__ void ballot_of_lanes_in_range(int* data, int* flag) {
  unsigned lanes = 0;
  if (threadIdx.x < 20) lanes = __ballot_sync(ALL, 1);
  data[threadIdx.x] = lanes;
}
// 1 32 ok
__device__ void ballot_of_all_lanes(int* data, int* flag) { data[threadIdx.x] = __ballot_sync(ALL, threadIdx.x < 20); }

__device__ int sum_of_warp(int value) {
  for (int offset = 16; offset; offset /= 2) value += __shfl_xor_sync(ALL, value, offset);
  return value;
}
// 1 32 diverges: does not call it
__device__ void sum_by_half_a_warp(int* data, int* flag) {
  int value = data[threadIdx.x];
  if (threadIdx.x < 16) value = __reduce_add_sync(ALL, value);
  data[threadIdx.x] = value;
}
// 2 64 ok
__device__ void sum_by_whole_warps(int* data, int* flag) {
  int value = 1;
  if (threadIdx.x < 32) value = sum_of_warp(data[512 + threadIdx.x]);
  data[blockIdx.x * 64 + threadIdx.x] = value;
}
// 1 32 diverges: different operations
__device__ void shuffle_and_vote(int* data, int* flag) {
  if (threadIdx.x < 16)
    data[threadIdx.x] = __shfl_xor_sync(ALL, 1, 8);
  else
    data[threadIdx.x] = __any_sync(ALL, 1);
}
// 1 32 ok
__device__ void lanes_that_return_first(int* data, int* flag) {
  if (threadIdx.x >= 20) return;
  data[threadIdx.x] = __any_sync(ALL, data[threadIdx.x]);
}
// 1 32 ok
__device__ void lanes_that_write_and_return_first(int* data, int* flag) {
  if (threadIdx.x >= 20) {
    data[threadIdx.x] = 0;
    return;
  }
  const int any = __any_sync(ALL, data[threadIdx.x]);
  data[threadIdx.x] = any;
}
// 1 32 ok
__device__ void body_under_a_guard(int* data, int* flag) {
  if (threadIdx.x < 20) {
    const int any = __any_sync(ALL, data[threadIdx.x]);
    data[threadIdx.x] = any;
  }
}
// 1 32 ok
__device__ void lanes_that_return_from_a_loop(int* data, int* flag) {
  for (int i = threadIdx.x;; i += 32) {
    if (i >= 52) return;
    data[i] = __any_sync(ALL, data[i]);
  }
}
// 1 32 missed: a lane that has taken part at this place before and leaves the loop counts as one that returns
__device__ void loop_of_different_lengths(int* data, int* flag) {
  int sum = 0;
  for (int i = threadIdx.x; i < 52; i += 32) sum += __any_sync(ALL, data[i]);
  data[threadIdx.x] = sum;
}
// 1 32 ok
__device__ void loop_of_one_length(int* data, int* flag) {
  int sum = 0;
  for (int i = threadIdx.x; i - int(threadIdx.x) < 52; i += 32) sum += __any_sync(ALL, i < 52 && data[i]);
  data[threadIdx.x] = sum;
}
// 1 32 ok
__device__ void lanes_that_are_active(int* data, int* flag) {
  if (threadIdx.x % 3 == 0) {
    const unsigned lanes = __activemask();
    __syncwarp(lanes);
    data[threadIdx.x] = __popc(lanes);
  }
}
// 1 32 ok
__device__ void matched_lanes(int* data, int* flag) {
  const unsigned lanes = __match_any_sync(ALL, threadIdx.x % 4);
  data[threadIdx.x] = __shfl_sync(lanes, int(threadIdx.x), __ffs(lanes) - 1);
}
