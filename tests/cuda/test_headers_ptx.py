"""Inline PTX on the emulator: one kernel per group of instructions, and every mma shape against float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from warpwise import cuda

SCALAR = r"""
__global__ void scalar(const unsigned* x, unsigned* y, float* f) {
  const unsigned a = x[0], b = x[1];
  unsigned r, s; unsigned long long l; float g; int v = -7;
  asm("mov.u32 %0, %%laneid;" : "=r"(r)); y[0] = r;
  asm("mov.u32 %0, %%ntid.x;" : "=r"(r)); y[1] = r;
  asm volatile("{ .reg .pred p; .reg .u32 t;\n\t setp.lt.u32 p, %1, %2;\n\t @p add.u32 t, %1, 1;\n\t"
               " @!p mov.u32 t, 0;\n\t mov.u32 %0, t; }"
               : "=r"(r) : "r"(a), "r"(b)); y[2] = r;
  asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(r) : "r"(a), "r"(b)); y[3] = r;
  asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(r) : "r"(a), "r"(b), "r"(0xf0f0f0f0u)); y[4] = r;
  asm("shf.l.wrap.b32 %0, %1, %2, 8;" : "=r"(r) : "r"(a), "r"(b)); y[5] = r;
  asm("bfe.u32 %0, %1, 4, 8;" : "=r"(r) : "r"(a)); y[6] = r;
  asm("bfi.b32 %0, %1, %2, 8, 8;" : "=r"(r) : "r"(a), "r"(b)); y[7] = r;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(l) : "r"(a), "r"(b)); y[8] = unsigned(l >> 32);
  asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(v) : "r"(v), "r"(6), "n"(2)); y[9] = v;
  asm("shr.s32 %0, %1, 40;" : "=r"(v) : "r"(v)); y[10] = v;
  asm("mov.b64 {%0, %1}, %2;" : "=r"(r), "=r"(s) : "l"(0x1234567890abcdefull)); y[11] = r; y[12] = s;
  asm("mov.b32 %0, {%1, %2};" : "=r"(r) : "h"((unsigned short)1), "h"((unsigned short)2)); y[13] = r;
  asm("add.u32 %0, %0, %[more];" : "+r"(r) : [more] "r"(5)); y[14] = r;
  asm("selp.b32 %0, 3, 4, %1;" : "=r"(r) : "r"(a > b)); y[15] = r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(g) : "f"(3.0f)); f[0] = g;
  asm("rcp.approx.f32 %0, %1;" : "=f"(g) : "f"(8.0f)); f[1] = g;
  asm("fma.rn.f32 %0, %1, %2, 0f3F800000;" : "=f"(g) : "f"(2.0f), "f"(3.0f)); f[2] = g;
  asm("cvt.rn.f32.s32 %0, %1;" : "=f"(g) : "r"(-3)); f[3] = g;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(2.5f)); f[4] = int(r);
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(1.00048828125f)); f[5] = __uint_as_float(r);
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(1.0f), "f"(2.0f)); y[16] = r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(1.0f), "f"(2.0f)); y[17] = r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(g) : "f"(0.0f)); f[6] = g;
  asm("add.f16x2 %0, %1, %2;" : "=r"(r) : "r"(0x3c004000), "r"(0x3c003c00)); y[18] = r;
  r = 0; asm volatile("LOOP: add.u32 %0, %0, 1; { .reg .pred q; setp.lt.u32 q, %0, 5; @q bra LOOP; }" : "+r"(r));
  y[19] = r;
}
"""


def test_scalar_instructions() -> None:
    a, b = 0x12345678, 0x9ABCDEF0
    y, f = np.zeros(20, np.uint32), np.zeros(7, np.float32)
    cuda.load(SCALAR)["scalar"][1, 1](np.array([a, b], np.uint32), y, f)
    c = 0xF0F0F0F0
    assert [hex(value) for value in y.tolist()] == [
        hex(value & 0xFFFFFFFF)
        for value in [
            0,
            1,
            a + 1,
            (b & 0xFFFF) << 16 | a & 0xFFFF,
            (a & b) | (a & c) | (b & c),
            (b << 8 | a >> 24),
            a >> 4 & 255,
            b & ~0xFF00 | (a & 255) << 8,
            a * b >> 32,
            -40,
            -1,
            0x90ABCDEF,
            0x12345678,
            2 << 16 | 1,
            (2 << 16 | 1) + 5,
            4,
            0x3C004000,
            0x3F804000,
            0x40004200,
            5,
        ]
    ]
    assert f.tolist() == [8.0, 0.125, 7.0, -3.0, 2.0, 1.0009765625, 0.0]


MEMORY = r"""
__global__ void memory(const float* x, float* y, int* counter) {
  __shared__ alignas(16) float tile[128];
  const int i = threadIdx.x;
  const unsigned at = __cvta_generic_to_shared(tile + 4 * i);
  float a, b, c, d;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
               : "l"(x + 4 * i));
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" :: "r"(at), "f"(a), "f"(b) : "memory");
  asm volatile("st.shared.v2.f32 [%0+8], {%1, %2};" :: "r"(at), "f"(c), "f"(d) : "memory");
  asm volatile("bar.sync 0;" ::: "memory");
  float v;
  asm volatile("ld.shared.f32 {%0}, [%1];" : "=f"(v) : "r"((unsigned)__cvta_generic_to_shared(tile + 127 - i)));
  asm volatile("{ .reg .u64 p; cvta.to.global.u64 p, %0; st.global.cs.f32 [p], %1; }" :: "l"(y + i), "f"(v));
  int old;
  asm volatile("atom.global.add.s32 %0, [%1], 2;" : "=r"(old) : "l"(counter));
  asm volatile("red.global.max.s32 [%0], %1;" :: "l"(counter + 1), "r"(i - 10));
  asm volatile("prefetch.global.L2 [%0];" :: "l"(x));
}
__global__ void outside(const float* x, float* y) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(x + 8));
  y[0] = v;
}
__global__ void odd(const float* x, float* y) {
  float a, b;
  asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(a), "=f"(b) : "l"(x + 1));
  y[0] = a + b;
}
"""


CARRY = r"""
typedef unsigned long long u64;
// 256-bit sums and differences, and the 128-bit product plus c: the carry passes between asm statements.
__global__ void carry(const u64* a, const u64* b, u64* sum, u64* difference, u64* out) {
  asm volatile("add.cc.u64 %0, %1, %2;" : "=l"(sum[0]) : "l"(a[0]), "l"(b[0]));
  asm volatile("addc.cc.u64 %0, %1, %2;" : "=l"(sum[1]) : "l"(a[1]), "l"(b[1]));
  asm volatile("addc.cc.u64 %0, %1, %2;" : "=l"(sum[2]) : "l"(a[2]), "l"(b[2]));
  asm volatile("{ addc.u64 %0, %1, %2; }" : "=l"(sum[3]) : "l"(a[3]), "l"(b[3]));
  asm volatile("sub.cc.u64 %0, %4, %8;\n\t subc.cc.u64 %1, %5, %9;\n\t subc.cc.u64 %2, %6, %10;\n\t"
               "subc.u64 %3, %7, %11;"
               : "=l"(difference[0]), "=l"(difference[1]), "=l"(difference[2]), "=l"(difference[3])
               : "l"(a[0]), "l"(a[1]), "l"(a[2]), "l"(a[3]), "l"(b[0]), "l"(b[1]), "l"(b[2]), "l"(b[3]));
  asm volatile("mad.lo.cc.u64 %0, %1, %2, %3;" : "=l"(out[0]) : "l"(a[0]), "l"(b[0]), "l"(a[1]));
  asm volatile("madc.hi.u64 %0, %1, %2, %3;" : "=l"(out[1]) : "l"(a[0]), "l"(b[0]), "l"(u64(0)));
  unsigned low, high;
  asm volatile("add.cc.u32 %0, %2, %3;\n\t addc.u32 %1, 0, 0;" : "=r"(low), "=r"(high) : "r"(~0u), "r"(2u));
  out[2] = u64(high) << 32 | low;
}
"""


def test_the_carry_of_extended_precision() -> None:
    rng = np.random.default_rng(0)
    kernel = cuda.load(CARRY)["carry"]
    for _ in range(4):
        a, b = rng.integers(2**64, size=4, dtype="u8"), rng.integers(2**64, size=4, dtype="u8")
        a[1] = ~b[1]  # the carry of the first word passes through
        total, difference, out = np.zeros(4, "u8"), np.zeros(4, "u8"), np.zeros(3, "u8")
        assert kernel[1, 1].check(a, b, total, difference, out) == []
        x, y = (int.from_bytes(each.tobytes(), "little") for each in (a, b))
        assert int.from_bytes(total.tobytes(), "little") == (x + y) % 2**256
        assert int.from_bytes(difference.tobytes(), "little") == (x - y) % 2**256
        assert int.from_bytes(out[:2].tobytes(), "little") == int(a[0]) * int(b[0]) + int(a[1])
        assert out[2] == 2**32 + 1


def test_memory_instructions() -> None:
    x, y, counter = torch.arange(128.0), torch.empty(32), torch.zeros(2, dtype=torch.int32)
    cuda.load(MEMORY)["memory"][1, 32](x, cuda.out(y), counter)
    assert y.tolist() == [127.0 - i for i in range(32)]
    assert counter.tolist() == [64, 21]


def test_memory_instructions_are_checked() -> None:
    with pytest.raises(cuda.OutOfBounds, match=r"x\[8\]"):
        cuda.load(MEMORY)["outside"][1, 1](torch.zeros(8), torch.zeros(1))
    with pytest.raises(cuda.KernelError, match="not a multiple of 8"):
        cuda.load(MEMORY)["odd"][1, 1](torch.zeros(8), torch.zeros(1))


COPIES = r"""
__global__ void copies(const float4* x, float4* y, int wait, int read) {
  __shared__ float4 tile[32];
  const int i = threadIdx.x;
  const unsigned to = __cvta_generic_to_shared(&tile[i]);
  if (read > 16) {  // the last operand is the cache policy
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" :: "r"(to), "l"(x + i), "l"(policy));
  } else {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2, %3;" :: "r"(to), "l"(x + i), "n"(16), "r"(read));
  }
  asm volatile("cp.async.commit_group;" :::);
  if (wait) asm volatile("cp.async.wait_group %0;" :: "n"(0));
  __syncthreads();
  y[i] = tile[31 - i];
}
"""


def test_asynchronous_copies_complete_at_the_wait() -> None:
    x, y = torch.arange(128.0), torch.empty(128)
    copies = cuda.load(COPIES)["copies"]
    copies[1, 32](x, cuda.out(y), 1, 16)
    assert torch.equal(y.view(32, 4), x.view(32, 4).flip(0))
    copies[1, 32](x, cuda.out(y.zero_()), 1, 17)
    assert torch.equal(y.view(32, 4), x.view(32, 4).flip(0))
    copies[1, 32](x, cuda.out(y), 1, 8)  # the other bytes are filled with zeros
    assert torch.equal(y.view(32, 4)[:, 2:], torch.zeros(32, 2))
    assert copies[1, 32].check(x, cuda.out(y), 0, 16) != []


WARP = r"""
__global__ void warp(int* y) {
  const int i = threadIdx.x, n = 32;
  int r; unsigned u;
  asm volatile("shfl.sync.down.b32 %0, %1, 2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(10 * i)); y[i] = r;
  asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %1, 1, 0x1800, 0xffffffff; selp.b32 %0, %0, -1, p; }"
               : "=r"(r) : "r"(i)); y[n + i] = r;
  asm volatile("{ .reg .pred p; setp.gt.s32 p, %1, 20; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(u) : "r"(i));
  y[2 * n + i] = u;
  asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(i)); y[3 * n + i] = r;
  asm volatile("shfl.sync.idx.b32 %0, %1, 3, 0x1c1f, 0xffffffff;" : "=r"(r) : "r"(i)); y[4 * n + i] = r;
}
"""


def test_warp_instructions() -> None:
    y = torch.empty(5 * 32, dtype=torch.int32)
    cuda.load(WARP)["warp"][1, 32](cuda.out(y))
    down, up, ballot, total, idx = y.view(5, 32).tolist()
    assert down == [10 * (i + 2) if i < 30 else 10 * i for i in range(32)]
    assert up == [i - 1 if i % 8 else -1 for i in range(32)]
    assert ballot == [0xFFE00000 - (1 << 32)] * 32
    assert total == [496] * 32
    assert idx == [i // 4 * 4 + 3 for i in range(32)]


def mma_kernel(shape: str, types: str, a: int, b: int, c: int, accumulator: str) -> str:
    """A kernel in which each lane loads ``a``, ``b`` and ``c`` registers of the operands and stores the result."""
    names = [f"%{i}" for i in range(c + a + b + c)]
    groups = [names[:c], names[c : c + a], names[c + a : c + a + b], names[c + a + b :]]
    text = (
        f"mma.sync.aligned.{shape}.row.col.{types} " + ", ".join("{" + ", ".join(group) + "}" for group in groups) + ";"
    )
    outputs = ", ".join(f'"={accumulator}"(d[{i}])' for i in range(c))
    inputs = [f'"r"(A[lane * {a} + {i}])' for i in range(a)] + [f'"r"(B[lane * {b} + {i}])' for i in range(b)]
    inputs += [f'"{accumulator}"(C[lane * {c} + {i}])' for i in range(c)]
    word = "float" if accumulator == "f" else "unsigned"
    return (
        f"__global__ void k(const unsigned* A, const unsigned* B, const {word}* C, {word}* D) {{\n"
        f"  const int lane = threadIdx.x; {word} d[{c}];\n"
        f'  asm volatile("{text}" : {outputs} : {", ".join(inputs)});\n'
        f"  for (int i = 0; i < {c}; i++) D[lane * {c} + i] = d[i]; }}"
    )


def fragments(matrix: torch.Tensor, per_register: int, transposed: bool) -> torch.Tensor:
    """The registers of the 32 lanes for A (16 x K) or B (K x 8), in the layout of the PTX ISA's figures."""
    k = matrix.shape[0] if transposed else matrix.shape[1]
    lanes = []
    for lane in range(32):
        group, place = divmod(lane, 4)
        registers = []
        for block in range(k // (4 * per_register)):
            columns = range(
                4 * per_register * block + per_register * place, 4 * per_register * block + per_register * (place + 1)
            )
            for row in (group,) if transposed else (group, group + 8):
                registers.append(torch.stack([matrix[j, row] if transposed else matrix[row, j] for j in columns]))
        lanes.append(torch.stack(registers))
    return torch.stack(lanes)


SHAPES = [
    ("m16n8k8", "f32.f16.f16.f32", torch.float16), ("m16n8k16", "f32.f16.f16.f32", torch.float16),
    ("m16n8k16", "f16.f16.f16.f16", torch.float16), ("m16n8k8", "f32.bf16.bf16.f32", torch.bfloat16),
    ("m16n8k16", "f32.bf16.bf16.f32", torch.bfloat16), ("m16n8k4", "f32.tf32.tf32.f32", torch.float32),
    ("m16n8k8", "f32.tf32.tf32.f32", torch.float32), ("m16n8k16", "s32.s8.s8.s32", torch.int8),
    ("m16n8k32", "s32.s8.s8.s32", torch.int8), ("m16n8k32", "s32.u8.u8.s32", torch.uint8),
]  # fmt: skip


@pytest.mark.parametrize("shape, types, dtype", SHAPES, ids=[f"{shape}.{types}" for shape, types, _ in SHAPES])
def test_mma(shape: str, types: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    k = int(shape.split("k")[1])
    integral = not dtype.is_floating_point
    draw = (lambda *s: torch.randint(-128, 256, s).to(dtype)) if integral else (lambda *s: torch.randn(*s).to(dtype))
    a, b = draw(16, k), draw(k, 8)
    if dtype is torch.float32:  # tf32 has 10 fraction bits
        a, b = ((x.view(torch.int32) & ~0x1FFF).view(torch.float32) for x in (a, b))
    per_register = 4 // a.element_size()
    half = types.startswith("f16")
    c = (
        torch.randint(-50, 50, (16, 8)).int()
        if integral
        else torch.randn(16, 8).to(torch.float16 if half else torch.float32)
    )
    place = torch.tensor([[(lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2) for i in range(4)] for lane in range(32)])
    packed_a, packed_b = fragments(a, per_register, False), fragments(b, per_register, True)
    packed_c = c[place[..., 0], place[..., 1]].contiguous()
    text = mma_kernel(
        shape, types, packed_a.shape[1], packed_b.shape[1], 2 if half else 4, "r" if integral or half else "f"
    )
    out = torch.empty_like(packed_c)
    words = [packed_a.contiguous().view(torch.int32), packed_b.contiguous().view(torch.int32)]
    as_words = (lambda x: x.view(torch.int32)) if half else (lambda x: x)
    cuda.load(text)["k"][1, 32](*words, as_words(packed_c), cuda.out(as_words(out)))
    expected = a.double() @ b.double() + c.double()
    tolerance = 0.0 if integral else 2e-2 if half else 1e-5
    got = torch.zeros(16, 8, dtype=torch.float64)
    got[place[..., 0], place[..., 1]] = out.double()
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


LDMATRIX = r"""
#include <cuda_fp16.h>
__global__ void through(const half* x, unsigned* plain, unsigned* trans, half* back) {
  __shared__ alignas(16) half tile[32 * 8], copy[32 * 8];
  const int lane = threadIdx.x;
  for (int i = 0; i < 8; i++) tile[8 * lane + i] = x[8 * lane + i];
  __syncwarp();
  const unsigned at = __cvta_generic_to_shared(tile + 8 * lane), to = __cvta_generic_to_shared(copy + 8 * lane);
  unsigned r[4], t[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16{%0, %1, %2, %3}, [%4];"
               : "=r"(t[0]), "=r"(t[1]), "=r"(t[2]), "=r"(t[3]) : "r"(at));
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
  __syncwarp();
  for (int i = 0; i < 4; i++) { plain[4 * lane + i] = r[i]; trans[4 * lane + i] = t[i]; }
  for (int i = 0; i < 8; i++) back[8 * lane + i] = copy[8 * lane + i];
}
"""


def test_an_element_of_a_restricted_pointer_as_operand() -> None:
    source = """
    template <int N> __global__ void k(const float* __restrict__ a, float* y) {
      asm volatile("{ .reg .f32 v; ld.global.f32 v, [%1]; st.global.f32 [%0], v; }" ::"l"(y), "l"(&a[N]));
    }"""
    y = torch.zeros(1)
    cuda.load(source)["k<2>"][1, 1](torch.arange(4.0), y)
    assert y.item() == 2


def test_matrix_loads_and_stores() -> None:
    x = torch.randn(4, 8, 8).half()
    plain, trans = torch.empty(128, dtype=torch.int32), torch.empty(128, dtype=torch.int32)
    back = torch.empty(4, 8, 8).half()
    cuda.load(LDMATRIX)["through"][1, 32](x, cuda.out(plain), cuda.out(trans), cuda.out(back))
    by_lane = x.reshape(4, 32, 2)  # lane 4 r + k holds elements 2 k and 2 k + 1 of row r
    assert torch.equal(plain.view(torch.float16).view(32, 4, 2).transpose(0, 1), by_lane)
    assert torch.equal(trans.view(torch.float16).view(32, 4, 2).transpose(0, 1), x.transpose(1, 2).reshape(4, 32, 2))
    assert torch.equal(back, x)


def test_an_address_of_the_shared_window_is_not_converted_again() -> None:
    text = r"""__global__ void k(float* y) {
  __shared__ float tile[32];
  tile[threadIdx.x] = threadIdx.x;
  const size_t once = __cvta_generic_to_shared(&tile[threadIdx.x]);
  const unsigned twice = __cvta_generic_to_shared(reinterpret_cast<void*>(once));
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(y[threadIdx.x]) : "r"(twice));
}"""
    y = torch.empty(32)
    cuda.load(text)["k"][1, 32](cuda.out(y))
    assert torch.equal(y, torch.arange(32.0))


@pytest.mark.parametrize(
    "instruction, reason",
    [
        ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", "is not emulated"),
        ("multimem.red.global.add.f32 [%0], %0;", "is not emulated"),
        ("frobnicate.f32 %0, %0;", "frobnicate.f32 is not emulated"),
        (
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0}, {%0}, {%0}, {%0};",
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 is not emulated",
        ),
    ],
)
def test_unsupported_instructions(instruction: str, reason: str) -> None:
    text = f'__global__ void k(int* x) {{\n  if (x[0])\n    asm volatile("{instruction}" :: "r"(0));\n}}'
    kernel = cuda.load(text)["k"]
    kernel[1, 32](np.zeros(1, np.int32))  # not executed, so no error
    with pytest.raises(cuda.UnsupportedFeature, match=reason) as caught:
        kernel[1, 32](np.ones(1, np.int32))
    assert caught.value.finding is not None
    assert caught.value.finding.access is not None
    assert caught.value.finding.access.line == 3


def test_a_global_address_of_32_bits_is_refused() -> None:
    text = """__global__ void read(int* x, unsigned low) {
      asm volatile("ld.global.u32 %0, [%1+4];" : "=r"(x[0]) : "r"(low));
    }"""
    with pytest.raises(cuda.UndefinedBehaviour, match="ld.global.u32 has 32 bits, which ptxas refuses"):
        cuda.load(text)["read"][1, 1](torch.zeros(1, dtype=torch.int32), 64)
