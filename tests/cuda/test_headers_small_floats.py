"""Types of 4 to 8 bits, and the scale factors e8m0, against tables that follow from the formats' definitions."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from warpwise import cuda
from warpwise.cuda import UndefinedBehaviour

# The class, and the bits of the exponent and of the fraction.
FORMATS = [("__nv_fp4_e2m1", 2, 1), ("__nv_fp6_e2m3", 2, 3), ("__nv_fp6_e3m2", 3, 2)]

SOURCE = """
#include <cuda_fp4.h>

template <typename T> __global__ void widen(const unsigned char* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T value;
  value.__x = x[i];
  y[i] = float(value);
  y[n + i] = __half2float(__half(value));
  y[2 * n + i] = int(value);
}
template <typename T> __global__ void narrow(const float* x, unsigned char* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = T(x[i]).__x;
  y[n + i] = T(double(x[i])).__x;
}
template <int KIND> __global__ void truncate(const float* x, unsigned char* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = KIND == 0   ? __nv_cvt_float_to_fp4(x[i], __NV_E2M1, cudaRoundZero)
         : KIND == 1 ? __nv_cvt_float_to_fp6(x[i], __NV_E2M3, cudaRoundZero)
                     : __nv_cvt_float_to_fp6(x[i], __NV_E3M2, cudaRoundZero);
}
__global__ void vectors(const float4* x, unsigned* y, float4* back) {
  __nv_fp4x2_e2m1 pair(make_float2(x->x, x->y));
  __nv_fp4x4_e2m1 four(*x);
  __nv_fp6x2_e3m2 pair6(make_float2(x->x, x->y));
  __nv_fp6x4_e2m3 four6(*x);
  y[0] = pair.__x;
  y[1] = four.__x;
  y[2] = pair6.__x;
  y[3] = four6.__x;
  back[0] = float4(four);
  back[1] = float4(four6);
  float2 low = float2(pair), high = float2(pair6);
  back[2] = make_float4(low.x, low.y, high.x, high.y);
}
__global__ void wrong_mode(unsigned char* y) { *y = __nv_cvt_float_to_fp4(1.0f, __NV_E2M1, cudaRoundPosInf); }
__global__ void scales(const float* x, unsigned char* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = __nv_fp8_e8m0(x[i]).__x;
  y[n + i] = __nv_cvt_float_to_e8m0(x[i], __NV_SATFINITE, cudaRoundZero);
  y[2 * n + i] = __nv_cvt_float_to_e8m0(x[i], __NV_NOSAT, cudaRoundPosInf);
}
__global__ void powers(const unsigned char* x, float* y) {
  __nv_fp8_e8m0 scale;
  scale.__x = x[threadIdx.x];
  y[threadIdx.x] = float(scale);
  y[blockDim.x + threadIdx.x] = __bfloat162float(__nv_bfloat16(scale));
}
"""


def table(exponent: int, fraction: int) -> list[float]:
    """The values of all codes with sign bit 0: subnormal numbers with exponent field 0, then normal numbers."""
    bias = 2 ** (exponent - 1) - 1
    return [
        math.ldexp(m + (2**fraction if e else 0), max(e, 1) - bias - fraction)
        for e in range(2**exponent)
        for m in range(2**fraction)
    ]


def encoded(x: float, values: list[float], towards_zero: bool) -> int:
    """The code of ``x``: the nearest value, of two the even code, or the largest value that is not above."""
    if math.isnan(x):
        return len(values) - 1
    magnitude = min(abs(x), values[-1])
    if towards_zero:
        code = max(k for k, value in enumerate(values) if value <= magnitude)
    else:
        code = min(range(len(values)), key=lambda k: (abs(values[k] - magnitude), k % 2))
    return code | (len(values) if math.copysign(1.0, x) < 0 else 0)


def inputs(values: list[float]) -> list[float]:
    """Every value, every midpoint, and the floats next to them, with both signs; and the special values."""
    middles = [(a + b) / 2 for a, b in itertools.pairwise(values)]
    exact = torch.tensor([*values, *middles, values[-1] * 1.1, 1e30, 1e-42], dtype=torch.float32)
    up, down = torch.tensor(math.inf), torch.tensor(-math.inf)
    near = torch.cat([exact, torch.nextafter(exact, up), torch.nextafter(exact, down)])
    special = torch.tensor([math.inf, -math.inf, math.nan, -0.0])
    return torch.cat([near, -near, special]).tolist()


@pytest.mark.parametrize("number, name, exponent, fraction", [(k, *each) for k, each in enumerate(FORMATS)])
def test_conversions(number: int, name: str, exponent: int, fraction: int) -> None:
    values = table(exponent, fraction)
    module = cuda.load(SOURCE)
    codes, n = torch.arange(2 * len(values), dtype=torch.uint8), 2 * len(values)
    y = torch.empty(3, n)
    module[f"widen<{name}>"][1, 128](codes, cuda.out(y), n)
    expected = torch.tensor([*values, *(-value for value in values)])
    assert torch.equal(y[0], expected) and torch.equal(y[1], expected) and torch.equal(y[2], expected.trunc())
    assert torch.equal(torch.signbit(y[0]), codes >= len(values))

    x = torch.tensor(inputs(values))
    n = len(x)
    grid = (n + 127) // 128
    out = torch.empty(2, n, dtype=torch.uint8)
    module[f"narrow<{name}>"][grid, 128](x, cuda.out(out), n)
    nearest = [encoded(each, values, towards_zero=False) for each in x.tolist()]
    assert out[0].tolist() == nearest and out[1].tolist() == nearest
    truncated = torch.empty(n, dtype=torch.uint8)
    module[f"truncate<{number}>"][grid, 128](x, cuda.out(truncated), n)
    assert truncated.tolist() == [encoded(each, values, towards_zero=True) for each in x.tolist()]


def test_vectors() -> None:
    x = torch.tensor([1.5, -6.0, 0.5, 3.0])
    y, back = torch.empty(4, dtype=torch.int32), torch.empty(12)
    cuda.load(SOURCE)["vectors"][1, 1](x, cuda.out(y), cuda.out(back))
    e2m1 = [encoded(each, table(2, 1), towards_zero=False) for each in x.tolist()]
    e2m3 = [encoded(each, table(2, 3), towards_zero=False) for each in x.tolist()]
    e3m2 = [encoded(each, table(3, 2), towards_zero=False) for each in x.tolist()]
    assert y.tolist() == [
        e2m1[0] | e2m1[1] << 4,
        sum(code << 4 * k for k, code in enumerate(e2m1)),
        e3m2[0] | e3m2[1] << 8,
        sum(code << 8 * k for k, code in enumerate(e2m3)),
    ]
    assert back.tolist() == [*x.tolist(), *x.tolist(), 1.5, -6.0, 1.5, -6.0]


def test_a_rounding_mode_that_the_conversion_does_not_have_is_found() -> None:
    with pytest.raises(UndefinedBehaviour, match="rounds by cudaRoundNearest or cudaRoundZero only"):
        cuda.load(SOURCE)["wrong_mode"][1, 1](torch.zeros(1, dtype=torch.uint8))


def test_scale_factors() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    y = torch.empty(2, 256)
    module = cuda.load(SOURCE)
    module["powers"][1, 256](codes, cuda.out(y))
    powers = torch.tensor([*(math.ldexp(1.0, code - 127) for code in range(255)), math.nan])
    assert torch.equal(y[0, :255], powers[:255]) and torch.equal(y[1, :255], powers[:255]) and y[:, 255].isnan().all()

    exact = powers[:255]
    up, down = torch.tensor(math.inf), torch.tensor(-math.inf)
    near = torch.cat([exact, torch.nextafter(exact, up), torch.nextafter(exact, down), exact * 1.3])
    x = torch.cat([near, -near, torch.tensor([0.0, math.inf, math.nan, 1e-42])])
    n = len(x)
    out = torch.empty(3, n, dtype=torch.uint8)
    module["scales"][(n + 127) // 128, 128](x, cuda.out(out), n)
    for each, above, below, unsaturated in zip(x.tolist(), *out.tolist(), strict=True):
        magnitude = abs(each)
        ceiling = next((code for code, power in enumerate(powers.tolist()) if power >= magnitude), 255)
        floor = max((code for code, power in enumerate(powers.tolist()) if power <= magnitude), default=0)
        if math.isnan(magnitude):
            ceiling = floor = 255
        assert unsaturated == ceiling, each
        assert above == (ceiling if math.isnan(magnitude) else min(ceiling, 254)), each
        assert below == floor, each


def test_the_nan_of_8_bits():
    """Of a float 0x7f, as of PTX's cvt; of a double with its sign and, in e5m2, the upper bits of its fraction."""
    kernel = cuda.load(
        """#include <cuda_fp8.h>
        __global__ void nans(const float* x, const double* z, unsigned char* y) {
          const int i = threadIdx.x;
          y[4 * i] = __nv_fp8_e4m3(x[i]).__x;
          y[4 * i + 1] = __nv_fp8_e5m2(x[i]).__x;
          y[4 * i + 2] = __nv_fp8_e4m3(z[i]).__x;
          y[4 * i + 3] = __nv_fp8_e5m2(z[i]).__x;
        }"""
    )["nans"]
    y = torch.empty(8, dtype=torch.uint8)
    kernel[1, 2](torch.tensor([math.nan, -math.nan]), torch.tensor([math.nan, -math.nan]).double(), cuda.out(y))
    assert y.tolist() == [0x7F, 0x7F, 0x7F, 0x7E, 0x7F, 0x7F, 0xFF, 0xFE]
