"""``check(nan=True)`` of Triton kernels: where a NaN, infinity or denormal number that is stored arises."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

import warpwise.triton as wt
from warpwise import cuda


@wt.jit
def quotient(x, z, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    b = tl.load(z + i, mask=i < n, other=0.0)
    tl.store(y + i, a / b, mask=i < n)


@wt.jit
def logarithms(x, z, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.log(tl.load(x + i, mask=i < n, other=1.0))
    tl.store(y + i, a - a, mask=i < n)


@wt.jit
def square(x, z, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=1.0)
    tl.store(y + i, a * a, mask=i < n)


@wt.jit
def softmax(x, z, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x + i, mask=i < n, other=-float("inf")))
    tl.store(y + i, e / tl.sum(e, 0), mask=i < n)


def numbers(*places: tuple[int, float], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.linspace(1, 2, 50)
    for index, value in places:
        x[index] = value
    return x.to(dtype)


@pytest.mark.parametrize(
    "kernel,x,z,messages,line",
    [
        (quotient, numbers((40, 0.0)), numbers((40, 0.0)), ["a NaN arises: 0 / 0 = nan"], "a / b"),
        (quotient, numbers(), numbers((40, 0.0)), ["an infinity arises: 1.8163265 / 0 = inf"], "a / b"),
        (
            logarithms,
            numbers((40, 0.0)),
            None,
            ["an infinity arises: log(0) = -inf", "a NaN arises: -inf - -inf = nan"],
            "",
        ),
        (square, numbers((40, 300.0), dtype=torch.float16), None, ["an infinity arises: 300 * 300 = inf"], "a * a"),
        (square, numbers((40, 1e30), dtype=torch.bfloat16), None, ["an infinity arises"], "a * a"),
        (square, numbers((40, 1e-20)), None, ["a denormal number arises: 9.99999968e-21 *"], "a * a"),
        (softmax, numbers((40, 100.0)), None, ["an infinity arises: exp(100) = inf", "inf / inf = nan"], ""),
        (quotient, numbers(), numbers(), [], ""),  # 0 / 0 in the masked lanes
        (softmax, numbers(), None, [], ""),
    ],
    ids=["0/0", "1/0", "log of 0", "half", "bfloat16", "denormal", "softmax", "masked", "correct softmax"],
)
def test_the_origin(kernel, x, z, messages, line):
    block = 64 if kernel is softmax else 32
    grid = (1,) if kernel is softmax else (2,)
    found = kernel[grid].check(x, x if z is None else z, torch.zeros_like(x), 50, BLOCK=block, nan=True)
    assert len(found) == len(messages), found
    for each, message in zip(found, messages, strict=True):
        assert each.kind is cuda.SpecialValue and message in each.message
        assert line in each.access.text
        assert each.access.block[0] * 32 + each.access.thread[0] == 40


@wt.jit
def row_sums(x_ptr, y_ptr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * BLOCK + columns[None, :])
    tl.store(y_ptr + rows, tl.sum(x, axis=1))
    tl.store(y_ptr + ROWS, tl.sum(tl.sum(x, axis=1), axis=0))


def test_a_sum_that_overflows() -> None:
    x, y = torch.ones(4, 64, dtype=torch.float16), torch.zeros(5, dtype=torch.float16)
    x[2] = 2000
    (finding,) = row_sums[1].check(x, y, 4, 64, nan=True)
    assert "an infinity arises: add.reduce(...) = inf, of up to 2000" in finding.message
    assert finding.access.thread == (2, 0, 0)
    assert "tl.store(y_ptr + rows, tl.sum(x, axis=1))" in str(finding)
