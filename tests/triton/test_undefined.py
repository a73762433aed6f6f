"""Lanes that a mask excludes, loaded without ``other``: their values are undefined, and a use of them is found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import Finding, UninitializedRead

N, BLOCK = 100, 128


@wt.jit
def reduced(x_ptr, y_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    if HOW == "max":
        tl.store(y_ptr, tl.max(x, axis=0))
    elif HOW == "argmax":
        tl.store(y_ptr, tl.argmax(x, axis=0).to(tl.float32))
    elif HOW == "sum of a select":
        tl.store(y_ptr, tl.sum(tl.where(lanes < n, x, 0.0), axis=0))
    elif HOW == "select by it":
        tl.store(y_ptr, tl.sum(tl.where(x > 0, 1.0, 0.0), axis=0))
    elif HOW == "scan":
        tl.store(y_ptr + lanes, tl.cumsum(x, axis=0), mask=lanes < n)
    elif HOW == "reversed scan":
        tl.store(y_ptr + lanes, tl.cumsum(x, axis=0, reverse=True), mask=lanes < n)
    elif HOW == "rows":
        tl.store(y_ptr + tl.arange(0, 8), tl.sum(tl.reshape(x, (8, BLOCK // 8)), axis=1))
    elif HOW == "first rows":
        tl.store(y_ptr + tl.arange(0, 8), tl.sum(tl.reshape(x, (8, BLOCK // 8)), axis=1), mask=tl.arange(0, 8) < 6)
    elif HOW == "dot":
        square = tl.trans(tl.reshape(x, (16, BLOCK // 16)))
        at = tl.arange(0, BLOCK // 16)
        tl.store(y_ptr + at[:, None] * 8 + at[None, :], tl.dot(square, tl.trans(square)))
    elif HOW == "masked store":
        tl.store(y_ptr + lanes, tl.exp(x) + 1, mask=lanes < n)
    elif HOW == "wide store":
        tl.store(y_ptr + lanes, tl.exp(x) + 1)
    elif HOW == "atomic":
        tl.atomic_add(y_ptr + lanes, x)
    elif HOW == "masked atomic":
        tl.atomic_add(y_ptr + lanes, x, mask=lanes < n)
    elif HOW == "condition":
        if tl.max(x, axis=0) > 0:
            tl.store(y_ptr, 1.0)
    elif HOW == "bound":
        for i in range(tl.max(x, axis=0).to(tl.int32)):
            tl.store(y_ptr + i, 1.0)
    elif HOW == "other of a load":
        tl.store(y_ptr + lanes, tl.load(x_ptr + lanes, mask=lanes < n, other=x))


@pytest.mark.parametrize(
    "how, found",
    [
        ("max", "write of an undefined value to y_ptr"),
        ("argmax", "write of an undefined value to y_ptr"),
        ("sum of a select", ""),
        ("select by it", "write of an undefined value to y_ptr"),
        ("scan", ""),
        ("reversed scan", "write of an undefined value to y_ptr"),
        ("rows", "write of an undefined value to y_ptr"),
        ("first rows", ""),
        ("dot", "write of an undefined value to y_ptr"),
        ("masked store", ""),
        ("wide store", "write of an undefined value to y_ptr"),
        ("atomic", "atomic of an undefined value to y_ptr"),
        ("masked atomic", ""),
        ("condition", "a condition or a bound depends on an undefined value"),
        ("bound", "a condition or a bound depends on an undefined value"),
        ("other of a load", "write of an undefined value to y_ptr"),
    ],
)
def test_undefined_lanes_that_reach_a_result(how: str, found: str) -> None:
    findings = reduced[1].check(torch.ones(N), torch.zeros(BLOCK), N, how, BLOCK)
    assert [finding.kind for finding in findings] == ([UninitializedRead] if found else [])
    if found:
        assert found in findings[0].message
        assert "x = tl.load(x_ptr + lanes, mask=lanes < n)" in str(findings[0])


def test_no_finding_where_the_block_is_full() -> None:
    assert reduced[1].check(torch.ones(BLOCK), torch.zeros(BLOCK), BLOCK, "max", BLOCK) == []


def test_the_wide_store_counts_the_undefined_lanes() -> None:
    (finding,) = reduced[1].check(torch.ones(N), torch.zeros(BLOCK), N, "wide store", BLOCK)
    assert (finding.count, finding.access.thread) == (BLOCK - N, (N, 0, 0))


@wt.jit
def gathered(x_ptr, index_ptr, y_ptr, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    at = tl.load(index_ptr + lanes, mask=lanes < n)
    mask = (at >= 0) & (lanes < n) if MASKED else at >= 0
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + lanes, x, mask=lanes < n)


@pytest.mark.parametrize("masked", [True, False])
def test_undefined_indices_in_a_mask_and_an_address(masked: bool) -> None:
    index = torch.arange(N, dtype=torch.int32)
    findings = gathered[1].check(torch.ones(N), index, torch.zeros(N), N, masked, BLOCK)
    wanted = set() if masked else {"the mask of a read depends on", "the address of a read depends on"}
    undefined = [finding for finding in findings if finding.kind is UninitializedRead]
    assert bool(undefined) != masked
    assert all(any(text in finding.message for text in wanted) for finding in undefined)


@wt.jit
def block_pointer(x_ptr, y_ptr, n, PADDING: tl.constexpr, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))
    tl.store(y_ptr, tl.sum(tl.load(block, boundary_check=(0,), padding_option=PADDING), axis=0))


@pytest.mark.parametrize("padding, count", [("", 1), ("zero", 0)])
def test_a_block_pointer_without_padding(padding: str, count: int) -> None:
    findings = block_pointer[1].check(torch.ones(N), torch.zeros(1), N, padding, BLOCK)
    assert len(findings) == count
    for finding in findings:
        assert 'give the load padding_option="zero"' in finding.hint
        assert finding.other is not None
        assert finding.other.what == "load outside of a block pointer without padding_option"


@pytest.mark.parametrize("checks, count", [("all", 1), ("bounds", 1), ("none", 0)])
def test_the_level_of_checks(checks: Any, count: int) -> None:
    findings: list[Finding] = reduced[1].check(torch.ones(N), torch.zeros(1), N, "max", BLOCK, checks=checks)
    assert len(findings) == count


@wt.jit
def weighted(x_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    w = tl.load(w_ptr + at, mask=at < n)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, w * (x / tl.sum(x * x, axis=0)), mask=at < n)


def test_the_load_that_a_reduction_spreads_is_named() -> None:
    (finding,) = weighted[1].check(torch.ones(5), torch.ones(5), torch.zeros(5), 5, 8)
    assert finding.other is not None
    assert finding.other.text.startswith("x = tl.load")


@wt.jit
def product(a_ptr, b_ptr, out_ptr, M, K, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at[:, None] * BLOCK + at[None, :], mask=at[:, None] < M)
    b = tl.load(b_ptr + at[:, None] * BLOCK + at[None, :], mask=at[:, None] < K)
    tl.store(out_ptr + at[:, None] * BLOCK + at[None, :], tl.dot(a, b), mask=at[:, None] < M)


@pytest.mark.parametrize("n", [(1, 1), (1, 15), (15, 15)])
def test_the_operand_of_a_product_that_makes_all_rows_undefined_is_named(n: tuple[int, int]) -> None:
    (finding,) = product[1].check(torch.ones(16, 16), torch.ones(16, 16), torch.zeros(16, 16), *n, 16)
    assert finding.other is not None
    assert finding.other.text.startswith("b = tl.load")
