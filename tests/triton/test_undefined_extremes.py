"""``tl.max`` and ``tl.argmax`` of undefined lanes that cannot win: their results are defined, and others are found."""

from __future__ import annotations

import itertools

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import UninitializedRead

N, BLOCK = 12, 16


@wt.jit
def extreme(x_ptr, y_ptr, first, last, wanted, HOW: tl.constexpr, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=(at >= first) & (at < last))
    if HOW == "comparison":
        x = x == wanted
    elif HOW == "comparison as int32":
        x = (x == wanted).to(tl.int32)
    elif HOW == "comparison as float32":
        x = (x == wanted).to(tl.float32)
    elif HOW == "comparison as int8":
        x = tl.reshape((x == wanted).to(tl.int8), (1, BLOCK)).reshape(BLOCK)
    if LARGEST:
        tl.store(y_ptr, tl.argmax(x, 0))
        tl.store(y_ptr + 1, tl.max(x, 0).to(tl.int32))
    else:
        tl.store(y_ptr, tl.argmin(x, 0))
        tl.store(y_ptr + 1, tl.min(x, 0).to(tl.int32))


def lines(x: torch.Tensor, first: int, last: int, wanted: int, how: str, largest: bool = True) -> set[str]:
    """Which of the two results is found undefined."""
    findings = extreme[1].check(x, torch.zeros(2, dtype=torch.int32), first, last, wanted, how, largest, BLOCK)
    assert all(finding.kind is UninitializedRead for finding in findings)
    return {"index" if "tl.arg" in str(finding) else "value" for finding in findings}


COMPARISONS = ["comparison", "comparison as int32", "comparison as float32", "comparison as int8"]


@pytest.mark.parametrize("how", COMPARISONS)
def test_a_comparison_that_is_true_before_the_undefined_lanes(how: str) -> None:
    x = torch.arange(N, dtype=torch.int32)
    assert lines(x, 0, N, 5, how) == set()
    assert lines(x, 0, N, 0, how, largest=False) == set()


@pytest.mark.parametrize("how", COMPARISONS)
def test_a_comparison_that_is_true_after_an_undefined_lane(how: str) -> None:
    """The maximum is 1, but an undefined lane before it may be the first one."""
    x = torch.arange(N, dtype=torch.int32)
    assert lines(x, 1, N, 5, how) == {"index"}


@pytest.mark.parametrize("how", COMPARISONS)
def test_a_comparison_that_is_nowhere_true(how: str) -> None:
    x = torch.arange(N, dtype=torch.int32)
    assert lines(x, 0, N, 99, how) == {"index", "value"}
    assert lines(x, 0, N, 99, how, largest=False) == set()


@pytest.mark.parametrize("how", COMPARISONS)
def test_a_block_without_defined_lanes(how: str) -> None:
    assert lines(torch.ones(N, dtype=torch.int32), 0, 0, 1, how) == {"index", "value"}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("largest", [True, False])
def test_integers_have_the_bounds_of_their_type(dtype: torch.dtype, largest: bool) -> None:
    limits = torch.iinfo(dtype)
    x = torch.full((N,), 1, dtype=dtype)
    assert lines(x, 0, N, 0, "values", largest) == {"index", "value"}
    x[3] = limits.max if largest else limits.min
    assert lines(x, 0, N, 0, "values", largest) == set()
    x[3] += -1 if largest else 1
    assert lines(x, 0, N, 0, "values", largest) == {"index", "value"}


def test_a_float_has_no_bounds() -> None:
    x = torch.full((N,), float("inf"))
    assert lines(x, 0, N, 0, "values") == {"index", "value"}


@wt.jit
def rows(x_ptr, y_ptr, n, LEFT: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    row, column = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + row * N + column, mask=(column + row) % N < n)
    _value, index = tl.max(x, 1, return_indices=True, return_indices_tie_break_left=LEFT)
    tl.store(y_ptr + tl.arange(0, M), index)


def test_the_lanes_found_are_those_that_a_value_of_the_undefined_ones_changes() -> None:
    """Against all values of two undefined lanes of each row of booleans."""
    x = torch.tensor(list(itertools.product([False, True], repeat=4)))
    x = torch.cat([torch.roll(x, -1, 0), x]).repeat(2, 1)[:32]
    defined = (torch.arange(4)[None] + torch.arange(32)[:, None]) % 4 < 2
    results = []
    for values in itertools.product([False, True], repeat=4):
        results.append(torch.where(defined, x, torch.tensor(values)).int().argmax(1))
    changed = (torch.stack(results) != results[0]).any(0)
    assert 0 < changed.sum() < 32
    out = torch.empty(32, dtype=torch.int32)
    (finding,) = rows[1].check(x, out, 2, True, 32, 4)
    assert finding.count == changed.sum()
    (finding,) = rows[1].check(x, out, 2, False, 32, 4)
    assert finding.count == 32  # without a rule for ties, either of two equal values may be chosen
