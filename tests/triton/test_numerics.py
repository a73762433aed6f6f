"""bfloat16 and float8 in the interpreter, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.triton import numerics

FLOAT8 = {
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
}


def _interesting() -> torch.Tensor:
    scales = torch.tensor([1e-40, 1e-8, 1e-3, 1.0, 10.0, 300.0, 1e5, 1e30])
    return torch.cat([torch.randn(200).outer(scales).flatten(), torch.tensor([0.0, -0.0, 1.00390625, 1.01171875])])


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = _interesting()
    bits = numerics.encode(values.numpy(), "bf16")
    assert np.array_equal(bits.view(np.int16), values.bfloat16().view(torch.int16).numpy())
    assert np.array_equal(numerics.decode(bits, "bf16"), values.bfloat16().float().numpy())
    assert np.isnan(numerics.decode(numerics.encode(np.array([np.nan], np.float32), "bf16"), "bf16"))
    assert np.isinf(numerics.decode(numerics.encode(np.array([np.inf], np.float32), "bf16"), "bf16"))


@pytest.mark.parametrize("name", FLOAT8)
def test_float8_round_trips_and_saturates(name: str) -> None:
    bits = np.arange(256, dtype=np.uint8)
    values = numerics.decode(bits, name)
    expected = torch.from_numpy(bits).view(FLOAT8[name]).float().numpy()
    assert np.array_equal(values, expected, equal_nan=True)
    finite = np.isfinite(values)
    assert np.array_equal(numerics.decode(numerics.encode(values[finite], name), name), values[finite])
    largest = values[finite].max()
    assert numerics.decode(numerics.encode(np.array([1e9], np.float32), name), name) == largest


def test_fp8e4b15_rounds_to_nearest() -> None:
    values = numerics.decode(np.arange(256, dtype=np.uint8), "fp8e4b15")
    assert np.array_equal(numerics.decode(numerics.encode(values, "fp8e4b15"), "fp8e4b15"), values)
    between = np.array([0.51, 1.2, -1.7], dtype=np.float32)
    nearest = values[np.abs(values[None, :] - between[:, None]).argmin(axis=1)]
    assert np.array_equal(numerics.decode(numerics.encode(between, "fp8e4b15"), "fp8e4b15"), nearest)


@wt.jit
def arithmetic(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, tl.where(x > y, x * y + x, tl.maximum(x, y) - 1.0))
    tl.store(out_ptr + BLOCK + at, tl.abs(x) / y)
    tl.store(out_ptr + 2 * BLOCK + at, -x)
    tl.store(out_ptr + 3 * BLOCK + at, tl.full((BLOCK,), 1.5, x_ptr.dtype.element_ty) + at.to(x_ptr.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_arithmetic_rounds_after_each_operation(dtype: torch.dtype) -> None:
    x, y = torch.randn(2, 128).to(dtype)
    out = torch.empty(4, 128, dtype=dtype)
    arithmetic[1](x, y, wt.out(out), 128)
    assert torch.equal(out[0], torch.where(x > y, x * y + x, torch.maximum(x, y) - 1))
    assert torch.equal(out[1], (x.abs().float() / y.float()).to(dtype))
    assert torch.equal(out[2], -x)
    assert torch.equal(out[3], torch.arange(128).to(dtype) + 1.5)


@wt.jit
def casts(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(out_ptr.dtype.element_ty))


@pytest.mark.parametrize(
    "source, target",
    [
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.float16),
        (torch.float32, torch.float8_e5m2),
        (torch.float8_e4m3fn, torch.bfloat16),
        (torch.int32, torch.bfloat16),
        (torch.bfloat16, torch.int32),
        (torch.float32, torch.uint8),
    ],
    ids=str,
)
def test_casts(source: torch.dtype, target: torch.dtype) -> None:
    x = (torch.rand(64) * 100).to(source)
    out = torch.empty(64, dtype=target)
    casts[1](x, wt.out(out), 64)
    assert torch.equal(out.double(), x.float().to(target).double())


def test_float_to_integer_cast_saturates() -> None:
    x = torch.tensor([3e9, -3e9, float("nan"), 2.9])
    out = torch.empty(4, dtype=torch.int32)
    casts[1](x, wt.out(out), 4)
    assert out.tolist() == [2**31 - 1, -(2**31), 0, 2]


@pytest.mark.parametrize(
    "target, expected",
    [(torch.int64, [2**63 - 1, -5, -(2**63), -(2**63)]), (torch.uint64, [2**64 - 1, 0, 2**63, 0])],
    ids=str,
)
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_a_cast_of_nan_to_64_bits_sets_the_top_bit(
    source: torch.dtype, target: torch.dtype, expected: list[int]
) -> None:
    x, out = torch.tensor([1e20, -5, float("nan"), -1e20], dtype=source), torch.empty(4, dtype=target)
    casts[1](x, wt.out(out), 4)
    assert out.tolist() == expected


@pytest.mark.parametrize(
    "target, expected", [(torch.int8, [44, -44, 0, 2, -1]), (torch.uint8, [44, 0, 0, 2, 255])], ids=str
)
def test_a_cast_to_8_bits_keeps_the_low_byte_of_16(target: torch.dtype, expected: list[int]) -> None:
    x, out = torch.tensor([300, -300, float("nan"), 2.9, 1e9, 0, 0, 0]), torch.empty(8, dtype=target)
    casts[1](x, wt.out(out), 8)
    assert out[:5].tolist() == expected


@wt.jit
def maxima(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, tl.maximum(x, y))
    tl.store(out_ptr + BLOCK + at, tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out_ptr + 2 * BLOCK + at, tl.zeros((BLOCK,), tl.float32) + tl.max(x, 0))


def test_nan_in_maximum() -> None:
    nan = float("nan")
    x, y = torch.tensor([1.0, nan]), torch.tensor([nan, 2.0])
    out = torch.empty(3, 2)
    maxima[1](x, y, wt.out(out), 2)
    assert out[0].tolist() == [1, 2]
    assert out[1].isnan().all()
    assert out[2].tolist() == [1, 1]


@wt.jit
def masked_sums(x_ptr, y_ptr, n, GIVEN: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0) if GIVEN else tl.load(x_ptr + lanes, mask=lanes < n)
    tl.store(y_ptr, tl.sum(x, axis=0))
    tl.store(y_ptr + 1, tl.sum(tl.where(lanes < n, x, 0), axis=0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.uint8])
def test_a_masked_lane_without_other_does_not_read_zero(dtype: torch.dtype) -> None:
    x, given, absent = torch.ones(20, dtype=dtype), torch.zeros(2, dtype=dtype), torch.zeros(2, dtype=dtype)
    masked_sums[1](x, given, 20, GIVEN=True, BLOCK=32)
    masked_sums[1](x, absent, 20, GIVEN=False, BLOCK=32, checks="none")
    assert given.tolist() == [20, 20]
    assert absent[1] == 20 and absent[0] != 20
