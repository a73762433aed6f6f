// Latency of an instruction in cycles: one warp runs a chain in which each instruction depends on the previous one.
//
// A kernel runs `rounds` rounds of 32 links and writes their cycles. The host subtracts the results of two values of
// `rounds`, which removes the code around the chain.
constexpr int kLinks = 32;

__device__ long long now() {
  long long cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

#define CHAIN(NAME, TYPE, INITIAL, LINK)                                           \
  template <int = 0>                                                               \
  __global__ void NAME(long long* cycles, TYPE* out, TYPE a, TYPE b, int rounds) { \
    TYPE x = INITIAL + static_cast<TYPE>(threadIdx.x);                             \
    __syncthreads();                                                               \
    long long start = now();                                                       \
    for (int round = 0; round < rounds; ++round) {                                 \
      _Pragma("unroll") for (int link = 0; link < kLinks; ++link) { LINK; }        \
    }                                                                              \
    long long end = now();                                                         \
    out[threadIdx.x] = x;                                                          \
    if (threadIdx.x == 0) *cycles = end - start;                                   \
  }

CHAIN(latency_ffma, float, a, asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b)))
CHAIN(latency_fadd, float, a, asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(x) : "f"(b)))
CHAIN(latency_dfma, double, a, asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x) : "d"(a), "d"(b)))
CHAIN(latency_hfma2, unsigned, a, asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b)))
CHAIN(latency_imad, int, a, asm volatile("mad.lo.s32 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b)))
CHAIN(latency_imad_wide, long long, a,
      asm volatile("{ .reg .u32 l; cvt.u32.u64 l, %0; mad.wide.u32 %0, l, l, %1; }" : "+l"(x) : "l"(b)))
// A link is an addition and a LOP3, because the assembler would merge a chain of additions.
CHAIN(latency_iadd_and_lop3, int, a,
      asm volatile("add.s32 %0, %0, %1; lop3.b32 %0, %0, %2, %1, 0x96;" : "+r"(x) : "r"(b), "r"(a)))
CHAIN(latency_lop3, int, a, asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(x) : "r"(a), "r"(b)))
CHAIN(latency_shf, int, a, asm volatile("shf.l.wrap.b32 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b)))
CHAIN(latency_popc, int, a, asm volatile("popc.b32 %0, %0;" : "+r"(x)))
CHAIN(latency_ex2, float, a, asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x)))
CHAIN(latency_rsqrt, float, a, asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x)))
CHAIN(latency_sqrt, float, a, asm volatile("sqrt.approx.ftz.f32 %0, %0;" : "+f"(x)))
CHAIN(latency_int_to_float_and_back, float, a,
      asm volatile("{ .reg .s32 i; cvt.rzi.s32.f32 i, %0; cvt.rn.f32.s32 %0, i; }" : "+f"(x)))
CHAIN(latency_integer_division, unsigned, a + 1000000007u, x = b + (a * 65536u + link) / (x | 1u))
CHAIN(latency_float_division, float, a, x = b / x)
CHAIN(latency_exp, float, a, x = expf(x) - b)
CHAIN(latency_shfl, int, a, asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;" : "+r"(x)))
CHAIN(latency_vote, unsigned, a,
      asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 7; vote.sync.ballot.b32 %0, p, -1; }" : "+r"(x)))
CHAIN(latency_redux, int, a, asm volatile("redux.sync.add.s32 %0, %0, -1;" : "+r"(x)))
CHAIN(latency_match_any, unsigned, a, asm volatile("match.any.sync.b32 %0, %0, -1;" : "+r"(x)))
CHAIN(latency_syncwarp, int, a, __syncwarp(); asm volatile("add.s32 %0, %0, %1;" : "+r"(x) : "r"(b)))
CHAIN(latency_barrier, int, a, __syncthreads())
CHAIN(latency_membar_block, int, a, __threadfence_block())
CHAIN(latency_membar_gpu, int, a, __threadfence())

// m16n8k16, half in, float accumulators; a link is one mma.sync on the accumulators of the previous one.
template <int = 0>
__global__ void latency_hmma(long long* cycles, float* out, unsigned a, unsigned b, int rounds) {
  float x[4] = {};
  __syncthreads();
  long long start = now();
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int link = 0; link < kLinks; ++link)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, {%0, %1, "
          "%2, %3};"
          : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
          : "r"(a), "r"(b));
  }
  long long end = now();
  out[threadIdx.x] = x[0] + x[1] + x[2] + x[3];
  if (threadIdx.x == 0) *cycles = end - start;
}

// Chains through memory: the first word of a link is the byte offset of the next one from the start.
template <int BYTES>
__global__ void latency_shared(long long* cycles, unsigned* out, unsigned stride, int rounds) {
  __shared__ __align__(128) unsigned next[4096];
  for (unsigned i = threadIdx.x; i < 4096; i += blockDim.x) next[i] = (4 * i + stride) % sizeof(next);
  __syncthreads();
  unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(next)), x = BYTES * (threadIdx.x & 31) % 128, rest = 0;
  long long start = now();
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int link = 0; link < kLinks; ++link) {
      unsigned a, b = 0, c = 0, d = 0;
      if constexpr (BYTES == 4) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(base + x) : "memory");
      if constexpr (BYTES == 16)
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                     : "r"(base + x)
                     : "memory");
      x = a;
      rest ^= b ^ c ^ d;
    }
  }
  long long end = now();
  out[threadIdx.x] = x + rest;
  if (threadIdx.x == 0) *cycles = end - start;
}

template <int = 0>
__global__ void latency_shared_atomic(long long* cycles, unsigned* out, unsigned zero, int rounds) {
  __shared__ unsigned words[64];
  for (unsigned i = threadIdx.x; i < 64; i += blockDim.x) words[i] = 0;
  __syncthreads();
  unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(words)) + 4 * (threadIdx.x & 31), x = 0;
  long long start = now();
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int link = 0; link < kLinks; ++link)
      asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(x) : "r"(base + x), "r"(zero) : "memory");
  }
  long long end = now();
  out[threadIdx.x] = x;
  if (threadIdx.x == 0) *cycles = end - start;
}

// One lane follows a chain of `hops` addresses in global memory, after a warm-up over the same chain.
#define CHASE(NAME, INSTRUCTION)                                                                                      \
  template <int = 0>                                                                                                  \
  __global__ void NAME(long long* cycles, unsigned* out, const unsigned char* data, int hops, int warm_up) {          \
    unsigned long long x = 0;                                                                                         \
    for (int hop = 0; hop < warm_up; ++hop)                                                                           \
      asm volatile(INSTRUCTION " %0, [%1];" : "=l"(x) : "l"(data + x) : "memory");                                    \
    x = warm_up ? 0 : x;                                                                                              \
    long long start = now();                                                                                          \
    for (int hop = 0; hop < hops; ++hop) asm volatile(INSTRUCTION " %0, [%1];" : "=l"(x) : "l"(data + x) : "memory"); \
    long long end = now();                                                                                            \
    *out = static_cast<unsigned>(x);                                                                                  \
    *cycles = end - start;                                                                                            \
  }

CHASE(latency_global_cached_in_l1, "ld.global.ca.u64")
CHASE(latency_global_cached_in_l2, "ld.global.cg.u64")

template <int = 0>
__global__ void latency_global_atomic(long long* cycles, unsigned* out, unsigned char* data, int hops, int warm_up) {
  unsigned long long x = 0, zero = 0;
  for (int hop = 0; hop < warm_up; ++hop)
    asm volatile("atom.global.add.u64 %0, [%1], %2;" : "=l"(x) : "l"(data + x), "l"(zero) : "memory");
  x = warm_up ? 0 : x;
  long long start = now();
  for (int hop = 0; hop < hops; ++hop)
    asm volatile("atom.global.add.u64 %0, [%1], %2;" : "=l"(x) : "l"(data + x), "l"(zero) : "memory");
  long long end = now();
  *out = static_cast<unsigned>(x);
  *cycles = end - start;
}
