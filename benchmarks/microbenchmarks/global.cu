// How many requests and sectors does an access of global memory cost? One warp, one access.
#include "access.cuh"

#define LOAD(NAME, FUNCTION)                                       \
  template <int BYTES>                                             \
  __global__ void NAME(unsigned* out, const unsigned char* data) { \
    out[lane()] = FUNCTION<BYTES>(data + offsets[lane()], on());   \
  }

LOAD(global_load, load_global)
LOAD(global_load_read_only, load_read_only)
LOAD(global_load_cached_in_l2, load_cached_in_l2)
LOAD(global_load_streaming, load_streaming)
LOAD(global_load_volatile, load_volatile)
LOAD(global_load_generic, load_generic)
#undef LOAD

template <int BYTES>
__global__ void global_store(unsigned char* data) {
  store_global<BYTES>(data + offsets[lane()], on());
}
