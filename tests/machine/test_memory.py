"""Loads, stores, atomics, shuffles, votes and asynchronous copies: SASS against the emulator, bitwise."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.launching import agree
from tests.machine.raw_launch import launch
from tests.sampled import thinned

from warpwise import cuda, machine

ALL = ("sm_75", "sm_80", "sm_90", "sm_100")
SM80_AND_LATER = ALL[1:]

WIDTHS = r"""
template <class T> struct Box { T x; };
__global__ void k(const unsigned char* a, const signed char* b, const unsigned short* c, const short* d, const int* e,
                  const uint2* f, const uint4* g, int* out, uint4* wide, int n) {
  __shared__ unsigned char sa[64]; __shared__ signed char sb[64]; __shared__ unsigned short sc[64];
  __shared__ short sd[64]; __shared__ int se[64]; __shared__ uint2 sf[64]; __shared__ uint4 sg[64];
  int i = threadIdx.x, j = n - i;
  sa[i] = a[i]; sb[i] = b[i]; sc[i] = c[i]; sd[i] = d[i]; se[i] = e[i]; sf[i] = f[i]; sg[i] = g[i];
  __syncthreads();
  out[i] = sa[j] + 3 * sb[j] + 5 * sc[j] + 7 * sd[j] + se[j];
  uint2 half = sf[j];
  uint4 whole = sg[j];
  wide[i] = make_uint4(half.x + whole.w, half.y + whole.z, whole.y, whole.x);
  ((short*)(out + 64))[i] = d[j];
  ((char*)(out + 96))[i] = b[j];
  const int* either = i < 20 ? se + j : e + j;  // generic
  int* target = i % 2 ? se + i : out + 128 + i;
  int loaded = *either;
  __syncthreads();
  *target = loaded;
  __syncthreads();
  out[192 + i] = i % 2 ? se[i] : 0;
  int local[16];
  for (int t = 0; t < 16; t++) local[t] = e[(t * n) % 64];
  local[n & 15] = i;
  out[256 + i] = local[j & 15];
  if (i % 3 == 0) out[320 + i] = __ldg(e + i) + __ldcg(e + j);
}
"""


@pytest.mark.parametrize("target", thinned(ALL, every=4, first=0))
def test_loads_and_stores_of_every_width(target: str) -> None:
    rng = np.random.default_rng(0)
    kernel = cuda.load(WIDTHS)["k"]
    narrow = [rng.integers(0, 256, 64).astype(kind) for kind in ("u1", "i1", "u2", "i2", "i4")]
    wide = [rng.integers(0, 2**31, (64, words)).astype(np.uint32) for words in (2, 4)]
    out, wide_out = np.zeros(384, np.int32), np.zeros((64, 4), np.uint32)
    counts = agree(kernel[1, 64], (*narrow, *wide, out, wide_out, 63), target)
    assert counts.total("bytes", "LDL", "STL") > 0


ATOMICS = r"""
__global__ void k(const int* where, unsigned* u, int* s, unsigned long long* b, long long* t, float* f, double* d,
                  unsigned* out) {
  __shared__ unsigned su[64]; __shared__ int ss[64]; __shared__ unsigned long long sb[64]; __shared__ float sf[64];
  int i = threadIdx.x, at = where[i];
  su[i] = i; ss[i] = -i; sb[i] = i; sf[i] = i;
  __syncthreads();
  unsigned r = 0;
  r += atomicAdd(u + i, 7u) + atomicSub(u + i, 3u) + atomicMin(u + i, 40u) + atomicMax(u + i, 9u);
  r = r * 3 + atomicInc(u + i, 20u) + atomicDec(u + i, 30u) + atomicExch(u + i, 5u + i) + atomicCAS(u + i, 9u, 77u);
  r = r * 3 + atomicAnd(u + i, 0x3fu) + atomicOr(u + i, 0x40u) + atomicXor(u + i, 3u);
  r = r * 3 + atomicMin(s + i, -3) + atomicMax(s + i, -20);
  r = r * 3 + (unsigned)(atomicAdd(b + i, 1ull << 33) >> 3) + (unsigned)atomicCAS(b + i, 5ull, 6ull);
  r = r * 3 + (unsigned)atomicMax(t + i, -5ll) + (unsigned)atomicMin(t + i, 12ll) + (unsigned)atomicExch(b + i, 9ull);
  r = r * 3 + (unsigned)atomicAdd(f + i, 1.5f) + (unsigned)atomicAdd(d + i, 2.5);
  atomicAdd(u + 64 + at, 1u); atomicMax(s + 64 + at, i); atomicAdd(b + 64 + at, 3ull); atomicAdd(f + 64 + at, 2.f);
  atomicOr(u + 128, 1u << (i % 32)); atomicAdd(u + 129, 1u); atomicAdd(u + 130, (unsigned)i);
  r = r * 3 + atomicAdd(su + i, 7u) + atomicMin(su + i, 40u) + atomicInc(su + i, 20u) + atomicCAS(su + i, 9u, 1u);
  r = r * 3 + atomicMax(ss + i, -9) + (unsigned)atomicAdd(sb + i, 5ull) + (unsigned)atomicCAS(sb + i, 8ull, 1ull);
  r = r * 3 + (unsigned)atomicAdd(sf + i, 4.f) + (unsigned)atomicExch(sb + i, 11ull + i);
  __syncthreads();
  atomicAdd(su + at, 1u); atomicAdd(su + at, (unsigned)i); atomicAdd(sf + at, 1.f); atomicAdd(sb + at, 2ull);
  atomicMin(ss + at, -i);
  __syncthreads();
  out[i] = r; out[64 + i] = su[i]; out[128 + i] = ss[i]; out[192 + i] = (unsigned)sb[i]; out[256 + i] = (unsigned)sf[i];
}
"""


@pytest.mark.parametrize("target", thinned(ALL, every=4, first=1))
def test_atomics_of_every_type(target: str) -> None:
    rng = np.random.default_rng(1)
    where = rng.integers(0, 8, 64).astype(np.int32)
    start = rng.integers(0, 60, (6, 192))
    arrays = [row.astype(kind) for row, kind in zip(start, ("u4", "i4", "u8", "i8", "f4", "f8"), strict=True)]
    kernel = cuda.load(ATOMICS)["k"]
    agree(kernel[1, 64], (where, *arrays, np.zeros(320, np.uint32)), target)


VECTOR_ATOMICS = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void k(float4* f, __half2* h, __nv_bfloat162* b, float4* old) {
  int i = threadIdx.x;
  old[i] = atomicAdd(f + i % 8, make_float4(1, 2, 3, i));
  atomicAdd(h + i % 4, __floats2half2_rn(1.f, i));
  atomicAdd(b + i % 4, __floats2bfloat162_rn(2.f, 1.f));
}
"""


def test_vector_atomics() -> None:
    f, old = np.zeros((8, 4), np.float32), np.zeros((32, 4), np.float32)
    h, b = np.zeros((4, 2), np.float16), np.zeros((4, 2), np.uint16)
    launch(VECTOR_ATOMICS, "sm_90", 1, 32, f, h, b, old)
    lanes = np.arange(32)
    for row in range(8):
        np.testing.assert_array_equal(f[row], [4, 8, 12, lanes[lanes % 8 == row].sum()])
        np.testing.assert_array_equal(old[row::8, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(h[:, 0], 8)
    np.testing.assert_array_equal(h[:, 1], [lanes[lanes % 4 == row].sum() for row in range(4)])
    np.testing.assert_array_equal((b.astype(np.uint32) << 16).view(np.float32), [[16, 8]] * 4)


WARP = r"""
__global__ void k(const unsigned* a, unsigned* out, int n) {
  const unsigned all = 0xffffffffu;
  int i = threadIdx.x, lane = i % 32, p;
  unsigned r = a[i];
  unsigned* o = out + i;
  o[0] = __shfl_sync(all, r, n);
  o[64] = __shfl_up_sync(all, r, 2);
  o[128] = __shfl_down_sync(all, r, 3, 8);
  o[192] = __shfl_xor_sync(all, r, n, 16);
  o[256] = __shfl_sync(all, r, lane ^ 3, 4);
  o[320] = __ballot_sync(all, r > 3);
  o[384] = __any_sync(all, r > 14) + 2 * __all_sync(all, r > 0);
  o[448] = __match_any_sync(all, r);
  o[512] = __match_all_sync(all, r / 64, &p) + p;
  o[576] = __match_any_sync(all, (unsigned long long)r * 0x300000001ull);
#if __CUDA_ARCH__ >= 800
  o[640] = __reduce_add_sync(all, r) + __reduce_xor_sync(all, r) * 3;
  o[704] = __reduce_min_sync(all, r) + 5 * __reduce_max_sync(all, (int)r - 9);
  o[768] = __reduce_and_sync(all, r | 3) + 7 * __reduce_or_sync(all, r);
#endif
  if (lane < n) {
    unsigned some = (1u << n) - 1;
    o[832] = __ballot_sync(some, r & 1);
    o[896] = __shfl_up_sync(some, r, 1);
  }
}
"""


@pytest.mark.parametrize("target", thinned(ALL, every=4, first=2))
def test_shuffle_vote_match_and_reduce(target: str) -> None:
    a = np.random.default_rng(2).integers(1, 16, 64).astype(np.uint32)
    kernel = cuda.load(WARP)["k"]
    out = np.zeros(960, np.uint32)
    if target == "sm_75":  # the emulator emulates sm_90, which has warp reductions
        launch(WARP.replace("__global__", 'extern "C" __global__'), target, 1, 64, a, out, 5)
        np.testing.assert_array_equal(out[:64].reshape(2, 32), np.repeat(a.reshape(2, 32)[:, 5:6], 32, 1))
        assert not out[640:832].any()
        return
    agree(kernel[1, 64], (a, out, 5), target)


COPIES = r"""
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void k(const unsigned* a, unsigned* out, int n) {
  __shared__ __align__(16) unsigned s[768];
  int i = threadIdx.x;
  for (int t = i; t < 768; t += 32) s[t] = 99;
  __syncthreads();
  unsigned p = at(s) + i * 16;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(p), "l"(a + i * 4));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(p + 8), "l"(a + i * 4 + 2));
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(p + 512), "l"(a + i * 4));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(p + 1024), "l"(a + i * 4), "r"(i % 17));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(p + 1536), "l"(a + i * 4), "r"(i % 5));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               ::"r"(p + 2048), "l"(a + i * 4), "r"(i < n ? 16 : 0));
  asm volatile("{ .reg .pred q; setp.gt.s32 q, %2, 3; cp.async.cg.shared.global [%0], [%1], 16, q; }"
               ::"r"(p + 2560), "l"(a + i * 4), "r"(i));
  asm volatile("cp.async.commit_group;\n cp.async.wait_group 1;\n cp.async.wait_group 0;");
  __syncthreads();
  for (int t = i; t < 768; t += 32) out[t] = s[t];
}
"""


@pytest.mark.parametrize("target", thinned(SM80_AND_LATER, every=3, first=0))
def test_cp_async_and_zero_fill(target: str) -> None:
    a = np.random.default_rng(3).integers(1, 2**32, 128).astype(np.uint32)
    out = np.zeros(768, np.uint32)
    counts = launch(COPIES, target, 1, 32, a, out, 7)
    rows, part = a.reshape(32, 4), out.reshape(6, 32, 4)
    lanes = np.arange(32)[:, None]

    def first_bytes(count: np.ndarray, of: np.ndarray) -> np.ndarray:
        kept = np.arange(of.itemsize * of.shape[1])[None] < count
        return np.where(kept, of.copy().view(np.uint8), 0).astype(np.uint8).view(np.uint32)

    np.testing.assert_array_equal(part[0], np.where([True, False, True, True], rows, 99))
    np.testing.assert_array_equal(part[1], rows)
    np.testing.assert_array_equal(part[2], first_bytes(lanes % 17, rows))
    np.testing.assert_array_equal(part[3][:, :1], first_bytes(lanes % 5, rows[:, :1]))
    np.testing.assert_array_equal(part[4], np.where(lanes < 7, rows, 0))
    np.testing.assert_array_equal(part[5], np.where(lanes > 3, 0, rows))
    assert counts.total("requests", "LDGSTS") == 7


BARRIERS = r"""
#include <cuda/barrier>
using Barrier = cuda::barrier<cuda::thread_scope_block>;
extern "C" __global__ void k(const unsigned* a, unsigned* out) {
  __shared__ __align__(16) unsigned s[1024];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier ready, done;
  int i = threadIdx.x;
  if (i == 0) { init(&ready, blockDim.x); init(&done, blockDim.x); }
  __syncthreads();
  for (int round = 0; round < 3; round++) {
    cuda::memcpy_async(s + i * 4, a + round * 512 + i * 4, cuda::aligned_size_t<16>(16), ready);
    ready.arrive_and_wait();
    out[round * 512 + i] = s[511 - i] + s[i * 3];
    done.wait(done.arrive());
  }
}
"""


@pytest.mark.parametrize("target", thinned(SM80_AND_LATER, every=3, first=1))
def test_cuda_barrier_and_memcpy_async(target: str) -> None:
    a = np.random.default_rng(4).integers(1, 2**20, 1536).astype(np.uint32)
    out = np.zeros(1536, np.uint32)
    launch(BARRIERS, target, 1, 128, a, out)
    i = np.arange(128)
    for round_ in range(3):
        part = a[round_ * 512 : round_ * 512 + 512]
        np.testing.assert_array_equal(out[round_ * 512 : round_ * 512 + 128], part[511 - i] + part[i * 3])


BULK = r"""
#include <cuda/barrier>
#include <cuda/ptx>
using Barrier = cuda::barrier<cuda::thread_scope_block>;
namespace copies = cuda::device::experimental;
extern "C" __global__ void k(const unsigned* a, unsigned* out) {
  __shared__ __align__(128) unsigned s[1024];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier bar;
  int i = threadIdx.x;
  if (i == 0) { init(&bar, blockDim.x); copies::fence_proxy_async_shared_cta(); }
  __syncthreads();
  Barrier::arrival_token token;
  if (i == 0) {
    copies::cp_async_bulk_global_to_shared(s, a, 4096, bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, 4096);
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  for (int t = 0; t < 16; t++) s[i + 64 * t] += i;
  copies::fence_proxy_async_shared_cta();
  __syncthreads();
  if (i == 0) {
    copies::cp_async_bulk_shared_to_global(out, s, 4096);
    copies::cp_async_bulk_commit_group();
    copies::cp_async_bulk_wait_group_read<0>();
  }
}
"""


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_cp_async_bulk(target: str) -> None:
    a = np.random.default_rng(5).integers(1, 2**20, 1024).astype(np.uint32)
    out = np.zeros(1024, np.uint32)
    launch(BULK, target, 1, 64, a, out)
    np.testing.assert_array_equal(out, a + np.arange(1024) % 64)


WRONG = r"""
extern "C" __global__ void k(float* x, int n) { *(float2*)(x + n + 2 * threadIdx.x) = make_float2(1, 2); }
"""


@pytest.mark.parametrize("offset, words", [(1, "not a multiple of 8"), (100, "in no argument and no variable")])
def test_faults_name_the_address(offset: int, words: str) -> None:
    with pytest.raises(machine.MachineFault, match=words):
        launch(WRONG, "sm_90", 1, 32, np.zeros(128, np.float32), offset)
