// How many wavefronts does an atomic operation in shared memory cost, by kind and by how many lanes share an address?
#include "access.cuh"

constexpr int kBytes = 32 * 1024;

__device__ unsigned* word(unsigned char* tile) { return reinterpret_cast<unsigned*>(tile + offsets[lane()]); }

// Adding 1, result unused: the compiler counts lanes that share an address (ATOMS.POPC.INC).
__global__ void shared_atomic_increment(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  if (on()) atomicAdd(word(tile), 1u);
  __syncwarp();
  out[lane()] = *reinterpret_cast<volatile unsigned*>(tile + 4 * lane());
}

__global__ void shared_atomic_add_integer(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  unsigned old = 0;
  if (on()) old = atomicAdd(word(tile), lane() + 1);
  out[lane()] = old;
}

__global__ void shared_atomic_maximum(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  unsigned old = 0;
  if (on()) old = atomicMax(word(tile), lane() + 1);
  out[lane()] = old;
}

__global__ void shared_atomic_exchange(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  unsigned old = 0;
  if (on()) old = atomicExch(word(tile), lane() + 1);
  out[lane()] = old;
}

__global__ void shared_atomic_compare_and_swap(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  unsigned old = 0;
  if (on()) old = atomicCAS(word(tile), lane(), lane() + 1);
  out[lane()] = old;
}

// Shared memory has no floating-point add: the compiler generates a compare-and-swap loop.
__global__ void shared_atomic_add_float(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  for (int i = lane(); i < kBytes / 4; i += 32) reinterpret_cast<unsigned*>(tile)[i] = 0;
  __syncwarp();
  if (on()) atomicAdd(reinterpret_cast<float*>(word(tile)), 1.0f);
  __syncwarp();
  out[lane()] = reinterpret_cast<unsigned*>(tile)[lane()];
}

__global__ void shared_atomic_add_64_bits(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  unsigned long long old = 0;
  if (on()) old = atomicAdd(reinterpret_cast<unsigned long long*>(tile + offsets[lane()]), lane() + 1ull);
  out[lane()] = static_cast<unsigned>(old);
}
