"""Functions of scalars with branches and loops: ``tl.reduce``, ``tl.associative_scan`` and ``tl.map_elementwise``."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import CompileError, UninitializedRead


@wt.jit
def farther_from_zero(a, b):
    if tl.abs(a) >= tl.abs(b):
        return a
    return b


@wt.jit
def farther_with_index(a, i, b, j):
    value, index = (a, i) if tl.abs(a) >= tl.abs(b) else (b, j)
    return value, index


@wt.jit
def reductions(x_ptr, farthest_ptr, index_ptr, running_ptr, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    at = rows[:, None] * N + columns[None, :]
    x = tl.load(x_ptr + at)
    tl.store(farthest_ptr + rows, tl.reduce(x, 1, farther_from_zero))
    _, index = tl.reduce((x, tl.broadcast_to(columns[None, :], (M, N))), 1, farther_with_index)
    tl.store(index_ptr + rows, index)
    tl.store(running_ptr + at, tl.associative_scan(x, 1, farther_from_zero))


def test_combine_functions_with_branches() -> None:
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    farthest, index = torch.empty(8), torch.empty(8, dtype=torch.int32)
    running = torch.empty_like(x)
    reductions[1](x, wt.out(farthest), wt.out(index), wt.out(running), 8, 32)
    expected = x.abs().argmax(1)
    assert torch.equal(index.long(), expected)
    assert torch.equal(farthest, x.gather(1, expected[:, None])[:, 0])
    assert torch.equal(running, x.gather(1, x.abs().cummax(1).indices))


@wt.jit
def steps_to_one(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@wt.jit
def power(x, exponent):
    result = 1.0
    for _ in range(exponent):
        result *= x
    return result


@wt.jit
def sorted_pair(a, b):
    if a <= b:
        return a, b
    return b, a


@wt.jit
def one_if_positive(x):
    if x > 0:
        return 1.0
    return 0.0


@wt.jit
def mapped(n_ptr, x_ptr, steps_ptr, power_ptr, sorted_ptr, sign_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    n, x = tl.load(n_ptr + at), tl.load(x_ptr + at)
    tl.store(steps_ptr + at, tl.map_elementwise(steps_to_one, n))
    tl.store(power_ptr + at, tl.map_elementwise(power, x, n % 5))
    tl.store(sorted_ptr + at, tl.map_elementwise(sorted_pair, x, pack=2)[0])
    tl.store(sign_ptr + at, tl.map_elementwise(one_if_positive, x))


def test_mapped_functions_with_loops() -> None:
    n, x = torch.arange(1, 33, dtype=torch.int32), torch.randn(32, generator=torch.Generator().manual_seed(0))
    steps, powers, ordered, sign = torch.empty_like(n), torch.empty(32), torch.empty(32), torch.empty(32)
    mapped[1](n, x, wt.out(steps), wt.out(powers), wt.out(ordered), wt.out(sign), 32)
    assert steps[[0, 1, 2, 5, 8, 26]].tolist() == [0, 1, 7, 8, 19, 111]
    torch.testing.assert_close(powers, x ** (n % 5))
    assert torch.equal(ordered, x.view(16, 2).sort(1).values.flatten())
    assert torch.equal(sign, (x > 0).float())


@wt.jit
def map_masked(x_ptr, out_ptr, n, PACK: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if PACK == 2:
        tl.store(out_ptr + at, tl.map_elementwise(sorted_pair, x, pack=2)[0], mask=at < n)
    else:
        tl.store(out_ptr + at, tl.map_elementwise(one_if_positive, x), mask=at < n)


@pytest.mark.parametrize("pack, kinds", [(1, set()), (2, {UninitializedRead})])
def test_a_result_depends_on_all_elements_of_its_call(pack: int, kinds: set[type]) -> None:
    findings = map_masked[1].check(torch.randn(8), torch.empty(8), 5, pack, 8)
    assert {finding.kind for finding in findings} == kinds
    assert sum(finding.count for finding in findings) == len(kinds)


@wt.jit
def branch_on_a_block(x_ptr, BLOCK: tl.constexpr):
    x = tl.map_elementwise(one_if_positive, tl.load(x_ptr + tl.arange(0, BLOCK)))
    if x > 0:
        tl.store(x_ptr, 0.0)


def test_other_conditions_must_be_scalars() -> None:
    with pytest.raises(CompileError, match=r"a condition must be a scalar, got a block of shape \(8,\)"):
        branch_on_a_block[1](torch.randn(8), 8)
