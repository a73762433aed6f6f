// Counters of two consecutive accesses: in divergent branches, to one line, after a store.
#include "access.cuh"

// Two halves of a warp in different branches: are their accesses separate requests?
template <int = 0>
__global__ void shared_load_divergent_halves(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[32 * 1024];
  unsigned address = in_shared(tile) + offsets[lane()], value = 1;
  if (lane() < 16) {
    value = load_shared<4>(address, 1);
    out[lane()] = value * 3;
  } else {
    value = load_shared<4>(address + 4, 1);
    out[lane()] = value * 5;
  }
}

template <int = 0>
__global__ void global_load_divergent_halves(unsigned* out, const unsigned char* data) {
  const unsigned char* from = data + offsets[lane()];
  if (lane() < 16)
    out[lane()] = load_global<4>(from, 1) * 3;
  else
    out[lane()] = load_global<4>(from, 1) * 5;
}

// The same line twice: does the second access hit in L1?
template <int = 0>
__global__ void global_load_twice(unsigned* out, const unsigned char* data) {
  unsigned first = load_global<4>(data + offsets[lane()], on());
  unsigned second = load_global<4>(data + offsets[lane()] + (first & 0), on());
  out[lane()] = first + second;
}

// One sector of a line, then the others: a line is filled by sectors.
template <int = 0>
__global__ void global_load_rest_of_line(unsigned* out, const unsigned char* data) {
  unsigned first = load_global<4>(data + (offsets[lane()] & ~127u), on());
  out[lane()] = first + load_global<4>(data + offsets[lane()] + (first & 0), on());
}

// A store, then a load by the same thread: does the store leave the sector in L1?
template <int = 0>
__global__ void global_load_after_store(unsigned* out, unsigned char* data) {
  store_global<4>(data + offsets[lane()], on());
  out[lane()] = load_global<4>(data + offsets[lane()], on());
}

// Load, store, load: does the store evict the line from L1?
template <int = 0>
__global__ void global_load_store_load(unsigned* out, unsigned char* data) {
  unsigned first = load_global<4>(data + offsets[lane()], on());
  store_global<4>(data + offsets[lane()] + (first & 0), on());
  out[lane()] = first + load_global<4>(data + offsets[lane()], on());
}
