"""``check(nan=True)``: the line, the thread and the operands of the first NaN, infinity and denormal number."""

from __future__ import annotations

import platform

import pytest
import torch

from warpwise import cuda

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="floating-point traps of x86-64")

SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
template <int Operation, class T>
__global__ void kernel(const T* x, const T* z, T* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if constexpr (Operation == 0) {
    y[i] = logf(x[i]);
  } else if constexpr (Operation == 1) {
    y[i] = x[i] / z[i];
  } else if constexpr (Operation == 2) {
    if (!(x[i] < z[i] - 100.0f))  // a comparison with NaN raises the same exception
      y[i] = x[i] - z[i];
  } else if constexpr (Operation == 3) {
    y[i] = x[i] * x[i];
  } else {
    float sum = 0.0f;
    for (int j = 0; j < n; ++j)
      sum += expf(x[j]);
    y[i] = expf(x[i]) / sum;
  }
}
"""
LINES = {number: text.strip() for number, text in enumerate(SOURCE.splitlines(), 1)}


def found(operation: int, x: torch.Tensor, z: torch.Tensor | None = None) -> list[cuda.Finding]:
    kernel = cuda.load(SOURCE)[f"kernel<{operation}, {cuda.ctype(x.dtype)}>"]
    return kernel[3, 32].check(x, x.clone() if z is None else z, torch.zeros_like(x), len(x), nan=True)


def numbers(*places: tuple[int, float]) -> torch.Tensor:
    x = torch.linspace(1, 2, 80)
    for index, value in places:
        x[index] = value
    return x


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    "operation,x,z,message,thread,line",
    [
        (0, numbers((70, 0.0)), None, "an infinity arises: logf(0) = -inf", 70, "y[i] = logf(x[i]);"),
        (0, numbers((3, -1.0)), None, "a NaN arises: logf(-1) = nan", 3, "y[i] = logf(x[i]);"),
        (1, numbers((40, 0.0)), numbers((40, 0.0)), "a NaN arises: 0 / 0 = nan", 40, "y[i] = x[i] / z[i];"),
        (1, numbers((5, 3.0)), numbers((5, 0.0)), "an infinity arises: 3 / 0 = inf", 5, "y[i] = x[i] / z[i];"),
        (2, numbers((2, NAN), (9, INF)), numbers((9, INF)), "a NaN arises: inf - inf = nan", 9, "y[i] = x[i] - z[i];"),
        (
            3,
            numbers((33, 1e30)),
            None,
            "an infinity arises: 1.00000002e+30 * 1.00000002e+30",
            33,
            "y[i] = x[i] * x[i];",
        ),
        (3, numbers((8, 2.0**-65)), None, "a denormal number arises: 2.71050543e-20 *", 8, "y[i] = x[i] * x[i];"),
        (4, numbers((50, 100.0)), None, "an infinity arises: expf(100) = inf", 0, "sum += expf(x[j]);"),
    ],
    ids=["log of 0", "log of -1", "0/0", "3/0", "inf - inf", "overflow", "denormal", "softmax without a maximum"],
)
def test_the_origin_in_float32(operation, x, z, message, thread, line):
    findings = found(operation, x, z)
    first = findings[0]
    assert first.kind is cuda.SpecialValue and message in first.message
    assert first.access.block[0] * 32 + first.access.thread[0] == thread
    assert first.access.text == line == LINES[first.access.line]


def test_a_softmax_without_a_maximum_has_a_nan_after_the_infinity():
    findings = found(4, numbers((50, 100.0)))
    assert [each.message.partition(":")[0] for each in findings] == ["an infinity arises", "a NaN arises"]
    assert findings[1].message.endswith("inf / inf = nan") and findings[1].access.thread == (18, 0, 0)


@pytest.mark.parametrize(
    "dtype,value,message",
    [
        (torch.float16, 300.0, "half(90000) = inf"),
        (torch.float16, 1e-3, "a denormal number arises: half(1.0"),
        (torch.bfloat16, 1e20, "= inf"),
    ],
)
def test_16_bit_types(dtype, value, message):
    findings = found(3, numbers((40, value)).to(dtype))
    assert any(message in each.message for each in findings), findings
    assert findings[0].access.thread == (8, 0, 0)


def test_special_values_of_the_arguments_do_not_arise():
    assert found(1, numbers((1, NAN), (2, INF), (3, 1e-40)), numbers()) == []
    assert found(0, numbers((0, INF), (1, NAN))) == []


def test_without_nan_there_is_no_finding():
    x = numbers((70, 0.0))
    kernel = cuda.load(SOURCE)["kernel<0, float>"]
    assert kernel[3, 32].check(x, x, torch.zeros_like(x), 80) == []
