"""__half, __nv_bfloat16 and the 8-bit types: all bit patterns against torch's conversions, and the intrinsics."""

from __future__ import annotations

import math

import pytest
import torch

from warpwise import cuda

SOURCE = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

template <typename T> __global__ void widen(const T* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = float(x[i]);
}
template <typename T> __global__ void narrow(const float* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = T(x[i]);
}
template <typename T> __global__ void narrow_double(const double* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = T(x[i]);
}
template <int KIND> __global__ void narrow_fp8(const float* x, unsigned char* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, KIND ? __NV_E5M2 : __NV_E4M3);
}
__global__ void directed(const float* x, half* y, int n) {
  int i = threadIdx.x;
  y[i] = __float2half_rz(x[i]);
  y[n + i] = __float2half_rd(x[i]);
  y[2 * n + i] = __float2half_ru(x[i]);
}
template <typename T> __global__ void arithmetic(const T* a, const T* b, const T* c, T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = a[i] + b[i];
  out[n + i] = a[i] - b[i];
  out[2 * n + i] = a[i] * b[i];
  out[3 * n + i] = a[i] / b[i];
  out[4 * n + i] = __hfma(a[i], b[i], c[i]);
  out[5 * n + i] = __hmax(a[i], b[i]);
  out[6 * n + i] = __hmin_nan(a[i], b[i]);
  out[7 * n + i] = __habs(-a[i]);
}
template <typename T> __global__ void compared(const T* a, const T* b, int* out) {
  int i = threadIdx.x;
  out[i] = __heq(a[i], b[i]) | __hne(a[i], b[i]) << 1 | __hlt(a[i], b[i]) << 2 | __hge(a[i], b[i]) << 3 |
           __hequ(a[i], b[i]) << 4 | (a[i] == b[i]) << 5 | (a[i] != b[i]) << 6 | (a[i] > b[i]) << 7;
}
__global__ void pairs(const half2* a, half2* out, float2* f) {
  half2 v = a[0], w = __half2half2(__low2half(v));
  out[0] = __hfma2(v, w, __float2half2_rn(0.5f));
  out[1] = __lowhigh2highlow(v);
  out[2] = __halves2half2(__high2half(v), hexp(__low2half(v)));
  out[3] = __shfl_xor_sync(1u, v, 0);
  f[0] = __half22float2(__hgt2(v, w));
  f[1] = make_float2(__hbgt2(v, w), __half2int_rd(__high2half(v)));
  half2 h = h2sqrt(v * v);
  h += v;
  out[4] = h;
}
__global__ void add(half* h, half2* h2, __nv_bfloat162* b2) {
  atomicAdd(h, __float2half(0.25f));
  atomicAdd(h2, __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(b2, __floats2bfloat162_rn(1.0f, 2.0f));
}
"""
MODULE = cuda.load(SOURCE, define={})
NARROW = {"__half": torch.float16, "__nv_bfloat16": torch.bfloat16}
EIGHT = {"__nv_fp8_e4m3": torch.float8_e4m3fn, "__nv_fp8_e5m2": torch.float8_e5m2}


def same(got: torch.Tensor, expected: torch.Tensor) -> bool:
    """Assert equal bits; all NaNs are equal."""
    nan = expected.float().isnan()
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[got.element_size()]
    return bool((got.float().isnan() == nan).all() and (got.view(bits)[~nan] == expected.view(bits)[~nan]).all())


def floats() -> torch.Tensor:
    """Random bit patterns, and all 16-bit values with the adjacent floats and the midpoints between them."""
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randint(-(2**31), 2**31, (1 << 16,), generator=generator).to(torch.int32).view(torch.float32)
    exact = torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(torch.float16).float()
    halfway = (exact[1:] + exact[:-1]) / 2
    near = torch.nextafter(halfway, torch.tensor(math.inf))
    brain = (torch.arange(-(1 << 15), 1 << 15).to(torch.int32) << 16).view(torch.float32)
    tie = (brain.view(torch.int32) | 0x8000).view(torch.float32)
    return torch.cat([patterns, exact, halfway, near, -near, tie, brain])


def to_odd(x: torch.Tensor) -> torch.Tensor:
    """Doubles converted to float with rounding to odd, so that a further conversion rounds only once."""
    nearest = x.float()
    away = nearest.double().abs() > x.abs()
    toward_zero = torch.where(away, torch.nextafter(nearest, torch.zeros(())), nearest)
    odd = (toward_zero.view(torch.int32) | 1).view(torch.float32)
    return torch.where((nearest.double() == x) | nearest.isnan() | nearest.isinf(), nearest, odd)


def run(name: str, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    MODULE[name][-(-x.numel() // 1024), 1024](x, cuda.out(out), x.numel(), checks="none")
    return out


@pytest.mark.parametrize("name, dtype", [*NARROW.items(), *EIGHT.items()])
def test_conversions_to_float_match_torch(name: str, dtype: torch.dtype) -> None:
    bits = torch.arange(1 << 16).to(torch.int16) if name in NARROW else torch.arange(256).to(torch.uint8)
    values = bits.view(dtype)
    assert same(run(f"widen<{name}>", values, torch.empty(values.numel())), values.float())


@pytest.mark.parametrize("name, dtype", list(NARROW.items()))
def test_conversions_from_float_match_torch(name: str, dtype: torch.dtype) -> None:
    x = floats()
    assert same(run(f"narrow<{name}>", x, torch.empty(x.numel(), dtype=dtype)), x.to(dtype))


@pytest.mark.parametrize("kind, dtype", list(enumerate(EIGHT.values())))
def test_conversions_to_fp8_match_torch(kind: int, dtype: torch.dtype) -> None:
    x = floats()
    got = run(f"narrow_fp8<{kind}>", x, torch.empty(x.numel(), dtype=torch.uint8)).view(dtype)
    expected = x.to(dtype)
    if dtype is torch.float8_e4m3fn:  # torch and CUDA differ from 464 to 480, which rounds to 448 or NaN
        assert same(got[x.abs() <= 464], expected[x.abs() <= 464])
        assert got[x.abs() > 464].float().isnan().all()
    else:
        assert same(got, expected)


@pytest.mark.parametrize("name, dtype", list(EIGHT.items()))
def test_fp8_constructors_saturate(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([1e9, -1e9, math.inf, -math.inf, 1.0, 0.3])
    largest = torch.finfo(dtype).max
    got = run(f"narrow<{name}>", x, torch.empty(6, dtype=dtype))
    assert got.float().tolist() == [largest, -largest, largest, -largest, 1.0, x[5].to(dtype).float().item()]


def test_doubles_convert_with_one_rounding() -> None:
    """1 + 2^-11 + 2^-40 is just above the midpoint of two halves; rounding to float first would give the midpoint."""
    x = torch.tensor([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 1 + 2.0**-11 - 2.0**-40], dtype=torch.float64)
    got = run("narrow_double<__half>", x, torch.empty(3, dtype=torch.float16))
    assert got.tolist() == [1 + 2.0**-10, 1.0, 1.0]


def test_directed_rounding() -> None:
    x = torch.tensor([1 + 2.0**-12, -1 - 2.0**-12, 70000.0, -70000.0, 2.0**-26, -(2.0**-26)])
    y = torch.empty(18, dtype=torch.float16)
    MODULE["directed"][1, 6](x, cuda.out(y), 6)
    up, tiny = 1 + 2.0**-10, 2.0**-24
    assert y[:6].tolist() == [1, -1, 65504, -65504, 0, 0]
    assert y[6:12].tolist() == [1, -up, 65504, -math.inf, 0, -tiny]
    assert y[12:].tolist() == [up, -1, math.inf, -65504, tiny, 0]


@pytest.mark.parametrize("name, dtype", list(NARROW.items()))
def test_arithmetic_is_correctly_rounded(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    bits = torch.randint(-(1 << 15), 1 << 15, (3, 4096), generator=generator).to(torch.int16)
    a, b, c = bits.view(dtype)
    out = torch.empty(8 * 4096, dtype=dtype)
    MODULE[f"arithmetic<{name}>"][4, 1024](a, b, c, cuda.out(out), 4096)
    wide_a, wide_b, wide_c = (x.double() for x in (a, b, c))
    expected = [a + b, a - b, a * b, a / b]
    for part, want in zip(out.split(4096), expected, strict=False):
        assert same(part, want)
    fused = wide_a * wide_b + wide_c
    product = wide_a * wide_b
    exact = fused.isnan() | (
        (fused - wide_c == product) & (fused - product == wide_c)
    )  # where the sum is exact in double
    assert exact.float().mean() > 0.1
    assert same(out[4 * 4096 : 5 * 4096][exact], to_odd(fused).to(dtype)[exact])
    number = torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.maximum(a, b)))
    assert same(out[5 * 4096 : 6 * 4096], number)
    assert same(out[6 * 4096 : 7 * 4096], torch.minimum(a, b))
    assert same(out[7 * 4096 :], a.abs())


@pytest.mark.parametrize("name, dtype", list(NARROW.items()))
def test_comparisons_with_nan(name: str, dtype: torch.dtype) -> None:
    a = torch.tensor([1.0, 2.0, math.nan], dtype=dtype)
    b = torch.tensor([1.0, 1.0, 1.0], dtype=dtype)
    out = torch.empty(3, dtype=torch.int32)
    MODULE[f"compared<{name}>"][1, 3](a, b, cuda.out(out))
    equal, greater, unordered = 1 | 8 | 16 | 32, 2 | 8 | 64 | 128, 16 | 64
    assert out.tolist() == [equal, greater, unordered]


def test_vectors_of_two() -> None:
    a = torch.tensor([1.5, -2.25], dtype=torch.float16)
    out, f = torch.empty(10, dtype=torch.float16), torch.empty(4)
    MODULE["pairs"][1, 1](a, cuda.out(out), cuda.out(f))
    expected = [2.75, -2.875, -2.25, 1.5, -2.25, math.exp(1.5), 1.5, -2.25, 3.0, 0.0]
    torch.testing.assert_close(out, torch.tensor(expected, dtype=torch.float16), rtol=1e-3, atol=0)
    assert f.tolist() == [0.0, 0.0, 0.0, -3.0]


def test_atomic_additions() -> None:
    half, pair, brain = torch.zeros(1).half(), torch.zeros(2).half(), torch.zeros(2).bfloat16()
    MODULE["add"][2, 64](half, pair, brain)
    assert half.tolist() == [32.0]
    assert pair.tolist() == [128.0, 256.0]
    assert brain.tolist() == [128.0, 256.0]
