// How many requests and sectors does local memory cost?
#include "access.cuh"

// An array with dynamic indices is in local memory, which interleaves the words of the lanes.
template <int = 0>
__global__ void local_array(unsigned* out) {
  unsigned values[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) values[i] = lane() * i;
  unsigned sum = 0;
  for (int step = 0; step < 4; ++step) sum += values[(offsets[lane()] / 4 + step) & 15];
  out[lane()] = sum;
}

// More live values than registers.
template <int = 0>
__global__ void __launch_bounds__(1024, 2) spilled(unsigned* out, const unsigned* data) {
  unsigned values[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) values[i] = data[i * 32 + lane()];
  __syncwarp();
#pragma unroll
  for (int round = 0; round < 2; ++round)
#pragma unroll
    for (int i = 0; i < 48; ++i) values[i] = values[i] * values[(i * 7 + 5) % 48] + round;
  unsigned sum = 0;
#pragma unroll
  for (int i = 0; i < 48; ++i) sum ^= values[i];
  out[lane()] = sum;
}
