"""Triton kernels through verify on the CPU: the interpreter's findings become the verdict, and correct kernels pass."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl
from tests.lab import toys

from warpwise import cuda
from warpwise import triton as wt
from warpwise.lab import verify


@wt.jit
def affine(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, 2 * x + 1, mask=offsets < n)


@wt.jit
def store_without_mask(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, 2 * x + 1)


@wt.jit
def mask_one_too_far(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets <= n)
    tl.store(y_ptr + offsets, 2 * x + 1, mask=offsets < n)


@wt.jit
def mask_of_whole_blocks(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n // BLOCK * BLOCK
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask) + 1, mask=mask)


@wt.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * columns + column, powers / tl.sum(powers, axis=0), mask=column < columns)


@wt.jit
def softmax_padded_with_zeros(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * columns + column, powers / tl.sum(powers, axis=0), mask=column < columns)


def elementwise(kernel, name):
    def launch(out, x):
        kernel[(wt.cdiv(len(x), 256),)](x, wt.out(out), len(x), BLOCK=256)

    launch.__name__ = name
    return launch


def rowwise(kernel, name):
    def launch(out, x):
        rows, columns = x.shape
        kernel[(rows,)](x, wt.out(out), columns, BLOCK=wt.next_power_of_2(columns))

    launch.__name__ = name
    return launch


BROKEN = [
    (toys.AFFINE, elementwise(store_without_mask, "store_without_mask"), "finding", cuda.OutOfBounds),
    (toys.AFFINE, elementwise(mask_one_too_far, "mask_one_too_far"), "finding", cuda.OutOfBounds),
    (toys.AFFINE, elementwise(mask_of_whole_blocks, "mask_of_whole_blocks"), "finding", cuda.UnwrittenOutput),
    (toys.SOFTMAX, rowwise(softmax_padded_with_zeros, "softmax_padded_with_zeros"), "value", None),
]


@pytest.mark.parametrize("spec,launch,kind,finding", BROKEN, ids=[entry[1].__name__ for entry in BROKEN])
def test_a_broken_kernel_is_wrong_where_the_size_is_ragged(spec, launch, kind, finding):
    op = toys.op(spec, launch, language="triton")
    verdict = verify(op, launch.__name__, device="cpu", dtypes=[torch.float32])
    assert verdict.status == "wrong"
    failure = next(failure for failure in verdict.failures if failure.case.name == "ragged")
    assert failure.kind == kind
    assert [found.kind for found in failure.findings] == ([finding] if finding else [])
    assert "even" not in {failure.case.name for failure in verdict.failures}


HONEST = [(toys.AFFINE, elementwise(affine, "affine")), (toys.SOFTMAX, rowwise(softmax, "softmax"))]


@pytest.mark.parametrize("spec,launch", HONEST, ids=[launch.__name__ for _, launch in HONEST])
def test_an_honest_kernel_is_right(spec, launch):
    verdict = verify(toys.op(spec, launch, language="triton"), launch.__name__, device="cpu")
    assert verdict.right, str(verdict)
