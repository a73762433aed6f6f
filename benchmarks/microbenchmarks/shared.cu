// How many wavefronts and bank conflicts does an access of shared memory cost? One warp, one access.
#include "access.cuh"

constexpr int kBytes = 32 * 1024;

template <int BYTES>
__global__ void shared_load(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  out[lane()] = load_shared<BYTES>(in_shared(tile) + offsets[lane()], on());
}

template <int BYTES>
__global__ void shared_store(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  store_shared<BYTES>(in_shared(tile) + offsets[lane()], on());
}

// 8 x 8 matrices of 2-byte elements: lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i.
template <int MATRICES, bool TRANSPOSED>
__global__ void ldmatrix(unsigned* out) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  unsigned address = in_shared(tile) + offsets[lane()], a = 0, b = 0, c = 0, d = 0;
  if constexpr (MATRICES == 1 && !TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(address) : "memory");
  if constexpr (MATRICES == 2 && !TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(a), "=r"(b)
                 : "r"(address)
                 : "memory");
  if constexpr (MATRICES == 4 && !TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(address)
                 : "memory");
  if constexpr (MATRICES == 4 && TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(address)
                 : "memory");
  out[lane()] = a ^ b ^ c ^ d;
}

// cp.async: consecutive in global memory, by the pattern in shared memory.
template <int BYTES, bool BYPASS_L1>
__global__ void cp_async_to_pattern(unsigned* out, const unsigned char* data) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  unsigned address = in_shared(tile) + offsets[lane()];
  const unsigned char* from = data + BYTES * lane();
  if constexpr (BYPASS_L1)
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(address),
                 "l"(from), "r"(on())
                 : "memory");
  else
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3; }" ::"r"(address),
                 "l"(from), "r"(on()), "n"(BYTES)
                 : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// cp.async: by the pattern in global memory, consecutive in shared memory.
template <int BYTES, bool BYPASS_L1>
__global__ void cp_async_from_pattern(unsigned* out, const unsigned char* data) {
  __shared__ __align__(128) unsigned char tile[kBytes];
  unsigned address = in_shared(tile) + BYTES * lane();
  const unsigned char* from = data + offsets[lane()];
  if constexpr (BYPASS_L1)
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(address),
                 "l"(from), "r"(on())
                 : "memory");
  else
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], %3; }" ::"r"(address),
                 "l"(from), "r"(on()), "n"(BYTES)
                 : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
}
