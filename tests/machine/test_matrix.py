"""Matrix instructions: every shape and format against the emulator, or NumPy if the emulator does not support it."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.machine.launching import agree
from tests.machine.raw_launch import launch

from warpwise import cuda

# PTX shape and formats (D, A, B, C), registers of A, B and C, and the first architecture.
PRODUCTS = [
    ("m16n8k8", "f32.f16.f16.f32", 2, 1, 4, 75),
    ("m16n8k8", "f16.f16.f16.f16", 2, 1, 2, 75),
    ("m16n8k16", "f32.f16.f16.f32", 4, 2, 4, 80),
    ("m16n8k16", "f16.f16.f16.f16", 4, 2, 2, 80),
    ("m16n8k16", "f32.bf16.bf16.f32", 4, 2, 4, 80),
    ("m16n8k8", "f32.bf16.bf16.f32", 2, 1, 4, 80),
    ("m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4, 80),
    ("m16n8k4", "f32.tf32.tf32.f32", 2, 1, 4, 80),
    ("m16n8k16", "s32.s8.u8.s32", 2, 1, 4, 80),
    ("m16n8k32", "s32.s8.s8.s32", 4, 2, 4, 80),
    ("m16n8k32", "satfinite.s32.u8.u8.s32", 4, 2, 4, 80),
    ("m16n8k64", "s32.s4.u4.s32", 4, 2, 4, 80),
    ("m16n8k32", "s32.s4.s4.s32", 2, 1, 4, 80),
]


def _statement(shape: str, formats: str, a: int, b: int, c: int, number: int) -> str:
    names = [f"%{i}" for i in range(c + a + b)]
    d, left, right = names[:c], names[c : c + a], names[c + a :]
    lists = ", ".join("{" + ", ".join(part) + "}" for part in (d, left, right, d))
    source = "h" if ".f16." in formats else "w" if ".bf16." in formats else "t" if "tf32" in formats else "x"
    start = "h" if formats.startswith("f16") else "t" if formats.startswith("f32") else "x"
    inputs = ", ".join(f'"r"({source}[{place} * 32 + lane])' for place in range(a + b))
    outputs = ", ".join(f'"+r"(d[{i}])' for i in range(c))
    stores = " ".join(f"out[({number} * 4 + {i}) * 32 + lane] = d[{i}];" for i in range(c))
    loads = ", ".join(f"{start}[{i + 7} * 32 + lane]" for i in range(c))
    mode = formats.replace("satfinite.", "")
    saturating = ".satfinite" if "satfinite" in formats else ""
    operation = f"mma.sync.aligned.{shape}.row.col{saturating}.{mode}"
    return f'{{ unsigned d[{c}] = {{{loads}}}; asm volatile("{operation} {lists};" : {outputs} : {inputs}); {stores} }}'


@functools.cache
def products(architecture: int) -> str:
    statements = (_statement(*each[:5], number) for number, each in enumerate(PRODUCTS) if each[5] <= architecture)
    return (
        "__global__ void k(const unsigned* h, const unsigned* w, const unsigned* t, const unsigned* x, unsigned* out)\n"
        "{\n  int lane = threadIdx.x;\n  " + "\n  ".join(statements) + "\n}\n"
    )


@pytest.mark.parametrize("architecture", [75, 80, 90])
def test_mma_shapes_and_formats(architecture: int) -> None:
    rng = np.random.default_rng(architecture)
    values = rng.standard_normal((12, 32, 2)).astype(np.float32)
    halves = values.astype(np.float16).view(np.uint32)[..., 0]
    high = (values.view(np.uint32) >> 16).astype(np.uint32)
    bfloats = np.ascontiguousarray(high[..., 0] | high[..., 1] << 16)
    singles = np.ascontiguousarray(values[..., 0]).view(np.uint32)
    integers = rng.integers(0, 2**32, (12, 32)).astype(np.uint32)
    out = np.zeros((len(PRODUCTS), 4, 32), np.uint32)
    kernel = cuda.load(products(architecture))["k"]
    counts = agree(kernel[1, 32], (halves, bfloats, singles, integers, out), f"sm_{architecture}")
    opcodes = {each.opcode for each in counts.program.instructions}
    assert opcodes >= ({"HMMA", "IMMA"} if architecture >= 80 else {"HMMA"})


MOVES = r"""
__global__ void k(const unsigned* a, unsigned* out, int stride) {
  __shared__ __align__(16) unsigned s[1024];
  int i = threadIdx.x;
  for (int t = 0; t < 32; t++) s[i + 32 * t] = a[i + 32 * t];
  __syncthreads();
  unsigned p = (unsigned)__cvta_generic_to_shared(s + (i * stride) % 1024), x, y, z, w;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(p));
  out[i] = x;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(p));
  out[i + 32] = x; out[i + 64] = y;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(p));
  out[i + 96] = x; out[i + 128] = y; out[i + 160] = z; out[i + 192] = w;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(p));
  out[i + 224] = x; out[i + 256] = y; out[i + 288] = z; out[i + 320] = w;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(x) : "r"(y));
  out[i + 352] = x;
#if __CUDA_ARCH__ >= 900
  __syncthreads();
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(p), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
  __syncthreads();
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(p), "r"(w), "r"(z) : "memory");
  __syncthreads();
  for (int t = 0; t < 32; t++) out[384 + i + 32 * t] = s[i + 32 * t];
#endif
}
"""


@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_ldmatrix_stmatrix_movmatrix(target: str) -> None:
    a = np.random.default_rng(1).integers(0, 2**32, 1024).astype(np.uint32)
    kernel = cuda.load(MOVES, target=target)["k"]
    agree(kernel[1, 32], (a, np.zeros(384 if target == "sm_75" else 1408, np.uint32), 20), target)


EIGHT_ROWS = r"""
extern "C" __global__ void k(const unsigned* x, int* out) {
  int i = threadIdx.x, d[2] = {(int)x[i + 64], (int)x[i + 96]}, e[2] = {1, 2}, f[2] = {3, 4};
  unsigned a = x[i], b = x[i + 32];
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+r"(d[0]), "+r"(d[1]) : "r"(a), "r"(b));
  asm volatile("mma.sync.aligned.m8n8k32.row.col.s32.u4.s4.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+r"(e[0]), "+r"(e[1]) : "r"(a), "r"(b));
  asm volatile("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+r"(f[0]), "+r"(f[1]) : "r"(a), "r"(b));
  for (int j = 0; j < 2; j++) { out[2 * i + j] = d[j]; out[64 + 2 * i + j] = e[j]; out[128 + 2 * i + j] = f[j]; }
}
"""


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_mma_m8n8_integers(target: str) -> None:
    x = np.random.default_rng(2).integers(0, 2**32, 128).astype(np.uint32)
    out = np.zeros((3, 8, 8), np.int32)
    launch(EIGHT_ROWS, target, 1, 32, x, out)
    a, b = x[:32], x[32:64]  # row g of A and column g of B: the bytes of lanes 4 g ... 4 g + 3
    left, right = a.view(np.int8).reshape(8, 16).astype(int), b.view(np.uint8).reshape(8, 16).astype(int)
    start = x[64:].view(np.int32).reshape(2, 8, 4).transpose(1, 2, 0).reshape(8, 8)
    np.testing.assert_array_equal(out[0], (left @ right.T + start).astype(np.int32))

    def nibbles(of: np.ndarray, signed: bool) -> np.ndarray:
        found = (of[:, None] >> (4 * np.arange(8, dtype=np.uint32)) & 15).astype(int).reshape(8, 32)
        return np.where(found > 7, found - 16, found) if signed else found

    np.testing.assert_array_equal(out[1], nibbles(a, False) @ nibbles(b, True).T + np.tile([1, 2], 4))
    bits = [np.unpackbits(each.view(np.uint8)).reshape(8, 128).astype(int) for each in (a, b)]
    differ = (bits[0][:, None] != bits[1][None]).sum(-1)
    np.testing.assert_array_equal(out[2], differ + np.tile([3, 4], 4))


DOUBLES = r"""
extern "C" __global__ void k(const double* x, double* out) {
  int i = threadIdx.x;
  double d[4] = {x[i], x[i + 32], x[i + 64], x[i + 96]}, a[8], b[4];
  for (int t = 0; t < 8; t++) a[t] = x[128 + 32 * t + i];
  for (int t = 0; t < 4; t++) b[t] = x[384 + 32 * t + i];
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(d[0]), "+d"(d[1]) : "d"(a[0]), "d"(b[0]));
#if __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11},"
               " {%12, %13, %14, %15}, {%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
                 "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#endif
  for (int t = 0; t < 4; t++) out[((t / 2 * 8 + i / 4) * 8) + i % 4 * 2 + t % 2] = d[t];
}
"""


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_mma_doubles(target: str) -> None:
    x = np.random.default_rng(3).integers(-9, 9, 512).astype(np.float64)
    out = np.zeros((16, 8))
    launch(DOUBLES, target, 1, 32, x, out)
    c = x[:128].reshape(2, 2, 8, 4).transpose(0, 2, 3, 1).reshape(16, 8)
    a, b = x[128:384].reshape(4, 2, 8, 4), x[384:].reshape(4, 8, 4)
    expected = c.copy()
    expected[:8] += a[0, 0] @ b[0].T
    if target == "sm_90":
        left = a.transpose(1, 2, 0, 3).reshape(16, 16)
        expected += left @ b.transpose(1, 0, 2).reshape(8, 16).T
    np.testing.assert_array_equal(out, expected)
