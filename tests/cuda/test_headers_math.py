"""CUDA's device functions: math, integer intrinsics, conversions, SIMD, atomics, warp operations."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
import torch

from warpwise import cuda

FUNCTIONS = {
    "rsqrt": lambda x: x**-0.5,
    "rcbrt": lambda x: x ** (-1 / 3),
    "sinpi": lambda x: torch.sin(math.pi * x),
    "cospi": lambda x: torch.cos(math.pi * x),
    "erfinv": lambda x: torch.erfinv(x / 4),
    "erfcinv": lambda x: torch.erfinv(1 - x / 2),
    "erfcx": torch.special.erfcx,
    "normcdf": torch.special.ndtr,
    "normcdfinv": lambda x: torch.special.ndtri(x / 4),
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "exp10": lambda x: 10**x,
}
SCALED = {"erfinv": 0.25, "erfcinv": 0.5, "normcdfinv": 0.25}
SOURCE = (
    "template <typename T> __global__ void values(const T* x, T* y) {\n  const int i = threadIdx.x, n = blockDim.x;\n"
    + "".join(f"  y[{k} * n + i] = {name}(x[i] * T({SCALED.get(name, 1)}));\n" for k, name in enumerate(FUNCTIONS))
    + "}\n"
)


@pytest.mark.parametrize("type_, dtype, tolerance", [("float", torch.float32, 4e-6), ("double", torch.float64, 4e-12)])
def test_mathematical_functions(type_: str, dtype: torch.dtype, tolerance: float) -> None:
    x = torch.linspace(0.05, 3.9, 64, dtype=torch.float64).to(dtype)
    y = torch.empty(len(FUNCTIONS) * 64, dtype=dtype)
    cuda.load(SOURCE)[f"values<{type_}>"][1, 64](x, cuda.out(y))
    for part, (name, function) in zip(y.split(64), FUNCTIONS.items(), strict=True):
        torch.testing.assert_close(
            part.double(), function(x.double()), rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


INTEGERS = """
__global__ void integers(const unsigned* a, const unsigned* b, unsigned* y) {
  const int i = threadIdx.x, n = blockDim.x;
  const unsigned x = a[i], z = b[i];
  y[i] = __popc(x) | __clz(x) << 8 | __ffs(x) << 16;
  y[n + i] = __brev(x);
  y[2 * n + i] = __byte_perm(x, z, 0x7250);
  y[3 * n + i] = __umulhi(x, z);
  y[4 * n + i] = __mulhi(int(x), int(z));
  y[5 * n + i] = __funnelshift_l(x, z, x & 63);
  y[6 * n + i] = __dp4a(int(x), int(z), 5);
  y[7 * n + i] = __dp4a(x, z, 5u);
  y[8 * n + i] = __vadd4(x, z);
  y[9 * n + i] = __vaddss2(x, z);
  y[10 * n + i] = __vabsdiffu4(x, z);
  y[11 * n + i] = __vcmpgts4(x, z);
  y[12 * n + i] = __usad(x, z, 3);
}
"""


def _bytes(word: int, signed: bool = False, lanes: str = "4b") -> tuple[int, ...]:
    return struct.unpack("<" + (lanes if signed else lanes.upper()), struct.pack("<I", word))


def _word(values: list[int], bits: int) -> int:
    return sum((value & ((1 << bits) - 1)) << (bits * k) for k, value in enumerate(values))


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def test_integer_intrinsics() -> None:
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 1 << 32, (2, 64), dtype=np.uint32)
    a[:3], b[:3] = [0, 1, 0x80000000], [0, 0xFFFFFFFF, 0x80000000]
    y = np.empty(13 * 64, np.uint32)
    cuda.load(INTEGERS)["integers"][1, 64](a, b, cuda.out(y))
    for i, (x, z) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        first_set = (x & -x).bit_length()
        both = z << 32 | x
        selected = [both >> (8 * nibble) & 255 for nibble in (0, 5, 2, 7)]
        saturated = [
            max(-32768, min(32767, p + q)) for p, q in zip(_bytes(x, True, "2h"), _bytes(z, True, "2h"), strict=True)
        ]
        expected = [
            x.bit_count() | (32 - x.bit_length()) << 8 | first_set << 16,
            int(f"{x:032b}"[::-1], 2),
            _word(selected, 8),
            x * z >> 32,
            (_signed(x) * _signed(z) >> 32) & 0xFFFFFFFF,
            (z << 32 | x) << (x & 31) >> 32 & 0xFFFFFFFF,
            (5 + sum(p * q for p, q in zip(_bytes(x, True), _bytes(z, True), strict=True))) & 0xFFFFFFFF,
            5 + sum(p * q for p, q in zip(_bytes(x), _bytes(z), strict=True)),
            _word([p + q for p, q in zip(_bytes(x), _bytes(z), strict=True)], 8),
            _word(saturated, 16),
            _word([abs(p - q) for p, q in zip(_bytes(x), _bytes(z), strict=True)], 8),
            _word([-(p > q) for p, q in zip(_bytes(x, True), _bytes(z, True), strict=True)], 8),
            (3 + abs(x - z)) & 0xFFFFFFFF,
        ]
        assert y[i::64].tolist() == expected, (hex(x), hex(z))


def test_byte_perm_ignores_the_bit_of_the_selector_with_which_prmt_repeats_the_sign() -> None:
    kernel = cuda.load("""
    __global__ void permute(const unsigned* selector, unsigned* y) {
      const unsigned a = 0xa1b2c3d4u, b = 0x12345678u, s = selector[threadIdx.x];
      y[threadIdx.x] = __byte_perm(a, b, s);
      asm("prmt.b32 %0, %1, %2, %3;" : "=r"(y[threadIdx.x + 4]) : "r"(a), "r"(b), "r"(s));
    }""")["permute"]
    selectors, y = np.array([0x8888, 0x0F0F, 0xC93A, 0x3175], np.uint32), np.empty(8, np.uint32)
    kernel[1, 4](selectors, cuda.out(y))
    assert y[:4].tolist() == [0xD4D4D4D4, 0xD412D412, 0x78C3A1B2, 0xA1C31256]
    assert y[4:].tolist() == [0xFFFFFFFF, 0xD400D400, 0x00FFA1FF, 0xA1C31256]


CONVERSIONS = """
__global__ void conversions(const float* x, int* i, float* f) {
  const int t = threadIdx.x;
  i[4 * t] = __float2int_rn(x[t]);
  i[4 * t + 1] = __float2int_rz(x[t]);
  i[4 * t + 2] = __float2int_rd(x[t]);
  i[4 * t + 3] = __float2uint_rn(x[t]);
  f[2 * t] = __saturatef(x[t]);
  f[2 * t + 1] = __int_as_float(__float_as_int(x[t]) ^ 0x80000000);
}
__global__ void rounded(const float* a, const float* b, float* y) {
  const int i = threadIdx.x, n = blockDim.x;
  y[i] = __fadd_rd(a[i], b[i]);
  y[n + i] = __fadd_ru(a[i], b[i]);
  y[2 * n + i] = __fmul_rd(a[i], b[i]);
  y[3 * n + i] = __fmul_ru(a[i], b[i]);
  y[4 * n + i] = __fdiv_rd(a[i], b[i]);
  y[5 * n + i] = __fdiv_ru(a[i], b[i]);
  y[6 * n + i] = __fmaf_rz(a[i], b[i], a[i]);
}
"""


def test_conversions_saturate() -> None:
    x = np.array([2.5, -2.5, 3e9, -3e9, np.nan, 0.75, 5e9], np.float32)
    i, f = np.empty(28, np.int32), np.empty(14, np.float32)
    cuda.load(CONVERSIONS)["conversions"][1, 7](x, cuda.out(i), cuda.out(f))
    top, bottom = 2**31 - 1, -(2**31)
    assert i[0::4].tolist() == [2, -2, top, bottom, 0, 1, top]
    assert i[1::4].tolist() == [2, -2, top, bottom, 0, 0, top]
    assert i[2::4].tolist() == [2, -3, top, bottom, 0, 0, top]
    assert i[3::4].view(np.uint32).tolist() == [2, 0, 3000000000, 0, 0, 1, 2**32 - 1]
    assert f[0::2].tolist() == [1, 0, 1, 0, 0, 0.75, 1]
    np.testing.assert_array_equal(f[1::2], -x)


def test_directed_rounding_brackets_the_exact_result() -> None:
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal((2, 256)) * np.exp(generator.uniform(-20, 20, (2, 256)))).astype(np.float32)
    y = np.empty(7 * 256, np.float32)
    cuda.load(CONVERSIONS)["rounded"][1, 256](a, b, cuda.out(y))
    wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
    for k, exact in enumerate([wide_a + wide_b, wide_a * wide_b, wide_a / wide_b]):
        down, up = y[512 * k : 512 * k + 256], y[512 * k + 256 : 512 * k + 512]
        assert (down <= exact).all()
        assert (up >= exact).all()
        assert (np.nextafter(down, np.float32(np.inf)) >= up).all()
    fused = wide_a * wide_b + wide_a
    assert (np.abs(y[6 * 256 :]) <= np.abs(fused)).all()
    assert (np.abs(np.nextafter(y[6 * 256 :], np.copysign(np.float32(np.inf), y[6 * 256 :]))) > np.abs(fused)).all()


ATOMICS = """
__global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
  const int t = threadIdx.x;
  atomicAdd(&i[0], t); atomicSub(&i[1], 1); atomicMax(&i[2], t); atomicMin(&i[3], -t);
  atomicAnd(&u[0], ~(1u << (t % 32))); atomicOr(&u[1], 1u << (t % 32)); atomicXor(&u[2], 3u);
  atomicInc(&u[3], 9); atomicDec(&u[4], 9);
  atomicAdd(&l[0], 1ull << 40); atomicCAS(&l[1], (unsigned long long)t, t + 1ull);
  atomicMax(&l[2], (unsigned long long)t << 33);
  atomicAdd(&f[0], 0.5f); atomicAdd_block(&d[0], 0.25); atomicAdd(reinterpret_cast<float2*>(&f[2]), make_float2(1, 2));
  if (t == 5) f[1] = atomicExch(&f[4], 7.0f);
}
__global__ void wrong(long long* x) { atomicAdd(x, 1); }
"""


def test_atomics() -> None:
    i, u, long = np.zeros(4, np.int32), np.array([0xFFFFFFFF, 0, 0, 0, 0], np.uint32), np.zeros(3, np.uint64)
    f, d = np.zeros(5, np.float32), np.zeros(1)
    cuda.load(ATOMICS)["atomics"][1, 64](i, u, long, f, d)
    assert i.tolist() == [2016, -64, 63, -63]
    assert u.tolist() == [0, 0xFFFFFFFF, 0, 4, 6]
    assert long.tolist() == [64 << 40, 64, 63 << 33]
    assert f.tolist() == [32.0, 0.0, 64.0, 128.0, 7.0]
    assert d.tolist() == [16.0]


def test_an_atomic_type_that_cuda_does_not_support() -> None:
    line = 1 + ATOMICS[: ATOMICS.index("void wrong")].count("\n")  # of the call, with g++; clang adds it in a note
    match = rf"kernel\.cu:{line}\b[\s\S]*atomicAdd|atomicAdd[\s\S]*kernel\.cu:{line}\b"
    with pytest.raises(cuda.CompileError, match=match) as raised:
        cuda.load(ATOMICS)["wrong"][1, 1](np.zeros(1, np.int64))
    assert "atomicAdd has no overload for this type in CUDA" in str(raised.value)


def test_names_that_the_c_library_also_declares() -> None:
    text = (
        "#include <time.h>\n#include <math.h>\n__global__ void k(float* x) { x[0] = __expf(1.0f); x[1] = __powf(2.0f, "
        "3.0f);\n"
        "  __sincosf(0.5f, &x[2], &x[3]); x[4] = clock64() >= clock() - clock(); x[5] = __fdividef(1.0f, 4.0f); }"
    )
    x = np.zeros(6, np.float32)
    cuda.load(text)["k"][1, 1](x)
    np.testing.assert_allclose(x, [math.e, 8, math.sin(0.5), math.cos(0.5), 1, 0.25], rtol=1e-6)


def test_memcpy_is_checked() -> None:
    text = "__global__ void k(float* x, const float* y) { memcpy(x, y, 16); std::memcpy(x, y, sizeof(float) * 5); }"
    [finding] = cuda.load(text)["k"][1, 1].check(np.zeros(5, np.float32), np.ones(4, np.float32))
    assert finding.kind is cuda.OutOfBounds
    assert finding.variable == "y"


def test_vector_types_have_cuda_alignment() -> None:
    text = (
        "__global__ void k(unsigned* x) { x[0] = alignof(float4); x[1] = alignof(float3); x[2] = sizeof(float3);\n"
        "  x[3] = alignof(double2); x[4] = alignof(uchar4); x[5] = sizeof(longlong4); x[6] = alignof(longlong4); dim3 "
        "d(2, 3);\n"
        "  x[7] = d.x * 100 + d.y * 10 + d.z; int4 v = make_int4(1, 2, 3, 4); x[8] = v.w; x[9] = warpSize; }"
    )
    x = np.zeros(10, np.uint32)
    cuda.load(text)["k"][1, 1](x)
    assert x.tolist() == [16, 4, 12, 16, 4, 32, 16, 231, 4, 32]


def test_a_texture_fetch_is_unsupported() -> None:
    text = "__global__ void k(float* x, int n) {\n  if (n) x[0] = tex2D<float>(cudaTextureObject_t(1), 0.5f, 0.5f);\n}"
    x = np.zeros(1, np.float32)
    cuda.load(text)["k"][1, 1](x, 0)
    with pytest.raises(cuda.UnsupportedFeature, match="not a live texture or surface object") as caught:
        cuda.load(text)["k"][1, 1](x, 1)
    assert caught.value.finding is not None
    assert caught.value.finding.access is not None
    assert caught.value.finding.access.line == 2
