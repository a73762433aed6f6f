// Throughput of an instruction in warp instructions a cycle: one block fills an SM, with independent chains in each
// thread.
//
// Every warp writes its start and end times; the host subtracts the first start from the last end of one SM.
constexpr int kChains = 8, kLinks = 8;

__device__ long long now() {
  long long cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

struct Watch {
  long long *start, *end;
  __device__ Watch(long long* times) {
    unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
    start = times + 2 * (blockIdx.x * warps + warp);
    end = start + 1;
    __syncthreads();
    if (threadIdx.x % 32 == 0) *start = now();
  }
  __device__ void stop() {
    if (threadIdx.x % 32 == 0) *end = now();
  }
};

#define STREAMS(NAME, TYPE, LINK)                                                                      \
  template <int = 0>                                                                                   \
  __global__ void NAME(long long* times, TYPE* out, TYPE a, TYPE b, int rounds) {                      \
    TYPE x[kChains];                                                                                   \
    _Pragma("unroll") for (int i = 0; i < kChains; ++i) x[i] = a + static_cast<TYPE>(threadIdx.x + i); \
    Watch watch(times);                                                                                \
    for (int round = 0; round < rounds; ++round) {                                                     \
      _Pragma("unroll") for (int link = 0; link < kLinks; ++link) {                                    \
        _Pragma("unroll") for (int i = 0; i < kChains; ++i) { LINK; }                                  \
      }                                                                                                \
    }                                                                                                  \
    watch.stop();                                                                                      \
    TYPE sum = x[0];                                                                                   \
    _Pragma("unroll") for (int i = 1; i < kChains; ++i) sum += x[i];                                   \
    out[threadIdx.x] = sum;                                                                            \
  }

STREAMS(throughput_ffma, float, asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x[i]) : "f"(a), "f"(b)))
STREAMS(throughput_fadd, float, asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(x[i]) : "f"(b)))
STREAMS(throughput_dfma, double, asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x[i]) : "d"(a), "d"(b)))
STREAMS(throughput_hfma2, unsigned, asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x[i]) : "r"(a), "r"(b)))
STREAMS(throughput_imad, int, asm volatile("mad.lo.s32 %0, %0, %1, %2;" : "+r"(x[i]) : "r"(a), "r"(b)))
STREAMS(throughput_iadd_and_lop3, int,
        asm volatile("add.s32 %0, %0, %1; lop3.b32 %0, %0, %2, %1, 0x96;" : "+r"(x[i]) : "r"(b), "r"(a)))
STREAMS(throughput_lop3, int, asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(x[i]) : "r"(a), "r"(b)))
STREAMS(throughput_shf, int, asm volatile("shf.l.wrap.b32 %0, %0, %1, %2;" : "+r"(x[i]) : "r"(a), "r"(b)))
STREAMS(throughput_popc, int, asm volatile("popc.b32 %0, %0;" : "+r"(x[i])))
STREAMS(throughput_ex2, float, asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[i])))
STREAMS(throughput_int_to_float, float,
        asm volatile("{ .reg .s32 j; mov.b32 j, %0; cvt.rn.f32.s32 %0, j; }" : "+f"(x[i])))
STREAMS(throughput_float_to_half, float,
        asm volatile("{ .reg .f16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h; }" : "+f"(x[i])))
STREAMS(throughput_shfl, int, asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;" : "+r"(x[i])))
STREAMS(throughput_vote, unsigned,
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 7; vote.sync.ballot.b32 %0, p, -1; }" : "+r"(x[i])))
STREAMS(throughput_redux, int, asm volatile("redux.sync.add.s32 %0, %0, -1;" : "+r"(x[i])))
STREAMS(throughput_barrier, int, if (i == 0) __syncthreads())

template <int = 0>
__global__ void throughput_hmma(long long* times, float* out, unsigned a, unsigned b, int rounds) {
  float x[kChains][4] = {};
  Watch watch(times);
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int link = 0; link < kLinks; ++link)
#pragma unroll
      for (int i = 0; i < kChains; ++i)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, {%0, %1, "
            "%2, %3};"
            : "+f"(x[i][0]), "+f"(x[i][1]), "+f"(x[i][2]), "+f"(x[i][3])
            : "r"(a), "r"(b));
  }
  watch.stop();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kChains; ++i) sum += x[i][0] + x[i][1] + x[i][2] + x[i][3];
  out[threadIdx.x] = sum;
}

// Lane l of every warp accesses words at l * stride bytes: how many cycles does an SM need for such a request?
//
// `step` is 0 at run time, so that the compiler cannot merge the accesses to the same address.
#define REQUESTS(NAME, SPACE, LINK)                                                                              \
  template <int BYTES>                                                                                           \
  __global__ void NAME(long long* times, unsigned* out, unsigned char* data, int stride, int step, int rounds) { \
    __shared__ __align__(128) unsigned char tile[SPACE];                                                         \
    unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + stride * (threadIdx.x % 32);       \
    unsigned char* global = data + stride * (threadIdx.x % 32);                                                  \
    unsigned a = threadIdx.x, b = 0, c = 0, d = 0, sum = 0;                                                      \
    for (unsigned i = threadIdx.x; i < SPACE / 4; i += blockDim.x) reinterpret_cast<unsigned*>(tile)[i] = 0;     \
    Watch watch(times);                                                                                          \
    for (int round = 0; round < rounds; ++round) {                                                               \
      _Pragma("unroll") for (int link = 0; link < kLinks; ++link) {                                              \
        LINK;                                                                                                    \
        sum ^= a ^ b ^ c ^ d;                                                                                    \
        shared += step;                                                                                          \
        global += step;                                                                                          \
      }                                                                                                          \
    }                                                                                                            \
    watch.stop();                                                                                                \
    out[threadIdx.x] = sum + shared + static_cast<unsigned>(global - data);                                      \
  }

#define BY_WIDTH(OF4, OF8, OF16)     \
  if constexpr (BYTES == 4) {        \
    OF4;                             \
  } else if constexpr (BYTES == 8) { \
    OF8;                             \
  } else {                           \
    OF16;                            \
  }

REQUESTS(throughput_shared_load, 32768,
         BY_WIDTH(asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(shared) : "memory"),
                  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(shared) : "memory"),
                  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c),
                               "=r"(d) : "r"(shared) : "memory")))
REQUESTS(throughput_shared_store, 32768,
         BY_WIDTH(asm volatile("st.shared.u32 [%1], %0;" ::"r"(a), "r"(shared) : "memory"),
                  asm volatile("st.shared.v2.u32 [%1], {%0, %0};" ::"r"(a), "r"(shared) : "memory"),
                  asm volatile("st.shared.v4.u32 [%1], {%0, %0, %0, %0};" ::"r"(a), "r"(shared) : "memory")))
REQUESTS(throughput_global_load_cached_in_l1, 128,
         BY_WIDTH(asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(a) : "l"(global) : "memory"),
                  asm volatile("ld.global.ca.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(global) : "memory"),
                  asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c),
                               "=r"(d) : "l"(global) : "memory")))
REQUESTS(throughput_global_load_cached_in_l2, 128,
         BY_WIDTH(asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(a) : "l"(global) : "memory"),
                  asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(global) : "memory"),
                  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c),
                               "=r"(d) : "l"(global) : "memory")))
REQUESTS(throughput_global_store, 128,
         BY_WIDTH(asm volatile("st.global.u32 [%1], %0;" ::"r"(a), "l"(global) : "memory"),
                  asm volatile("st.global.v2.u32 [%1], {%0, %0};" ::"r"(a), "l"(global) : "memory"),
                  asm volatile("st.global.v4.u32 [%1], {%0, %0, %0, %0};" ::"r"(a), "l"(global) : "memory")))
REQUESTS(throughput_shared_atomic, 32768,
         asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(a) : "r"(shared), "r"(threadIdx.x) : "memory"))
REQUESTS(throughput_global_reduction, 128,
         asm volatile("red.global.add.u32 [%0], %1;" ::"l"(global), "r"(a) : "memory"))
REQUESTS(throughput_global_atomic, 128,
         asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(a) : "l"(global), "r"(threadIdx.x) : "memory"))

// Every block repeatedly reads `bytes` of its own part of `data`: from L2 if all parts fit, else from DRAM.
template <int = 0>
__global__ void throughput_read(unsigned* out, const uint4* data, long long vectors, int rounds) {
  unsigned sum = 0;
  for (int round = 0; round < rounds; ++round)
#pragma unroll 4
    for (long long i = blockIdx.x * 1024ll + threadIdx.x; i < vectors; i += gridDim.x * 1024ll) {
      uint4 v;
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(data + i));
      sum += v.x ^ v.y ^ v.z ^ v.w;
    }
  out[blockIdx.x * 1024 + threadIdx.x] = sum;
}

template <int = 0>
__global__ void throughput_write(uint4* data, long long vectors, int rounds) {
  for (int round = 0; round < rounds; ++round)
#pragma unroll 4
    for (long long i = blockIdx.x * 1024ll + threadIdx.x; i < vectors; i += gridDim.x * 1024ll)
      data[i] = make_uint4(round, i, 0, 0);
}

// An empty kernel: the cost of a launch.
template <int = 0>
__global__ void nothing() {}
