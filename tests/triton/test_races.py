"""Races between programs and between lanes, and kernels without races."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton.language as tl
from tests.triton.kernels import increment, line_of

from warpwise import triton as wt
from warpwise.cuda import DataRace


@wt.jit
def write_program(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.program_id(0) + at)


@wt.jit
def shift_in_place(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    following = tl.load(x_ptr + at + 1, mask=at + 1 < n)
    tl.store(x_ptr + at, following, mask=at + 1 < n)


@wt.jit
def clear_then_count(x_ptr, counts_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(counts_ptr + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.int32))
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts_ptr + tl.load(x_ptr + at), 1)


@wt.jit
def scatter(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at // 2, tl.load(x_ptr + at))


@pytest.mark.parametrize(
    "kernel, grid, arguments, statement, other",
    [
        (increment, 2, (torch.zeros(8), 8), "tl.load", "tl.store"),
        (write_program, 2, (torch.full((8,), -9, dtype=torch.int32), 8), "tl.store", "tl.store"),
        (shift_in_place, 2, (torch.arange(16.0), 16, 8), "tl.store", "tl.load"),
        (clear_then_count, 2, (torch.arange(16) % 8, torch.ones(8, dtype=torch.int32), 8), "atomic_add", "zeros"),
        (scatter, 1, (torch.arange(8.0), torch.zeros(4), 8), "tl.store", None),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_races_between_programs_and_lanes(
    kernel: wt.Kernel, grid: int, arguments: tuple[Any, ...], statement: str, other: str | None
) -> None:
    with pytest.raises(DataRace) as caught:
        kernel[grid](*arguments, num_warps=1)  # the lanes of one warp need no barrier
    finding = caught.value.finding
    assert finding is not None
    assert finding.access is not None
    assert finding.access.line == line_of(kernel, statement)
    if other is None:
        assert finding.other is None
    else:
        assert finding.other is not None
        assert finding.other.block == (0, 0, 0)
        assert finding.other.line == line_of(kernel, other)
        assert finding.access.block == (1, 0, 0)


def test_races_between_overlapping_views_of_two_dtypes() -> None:
    storage = torch.zeros(8, dtype=torch.int32)
    halves = storage.view(torch.int16)

    @wt.jit
    def both(wide_ptr, narrow_ptr, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        if tl.program_id(0) == 0:
            tl.store(wide_ptr + at, at + 70000)
        else:
            tl.store(narrow_ptr + at, at.to(tl.int16) + 1)

    (finding,) = both[2].check(storage, halves, BLOCK=8)
    assert finding.kind is DataRace
    assert finding.variable == "narrow_ptr"
    assert finding.count == 8


@wt.jit
def sum_by_last_program(x_ptr, partial_ptr, counter_ptr, out_ptr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    program = tl.program_id(0)
    tl.store(partial_ptr + program, tl.sum(tl.load(x_ptr + program * BLOCK + tl.arange(0, BLOCK))))
    if tl.atomic_add(counter_ptr, 1) == PROGRAMS - 1:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS))))


@wt.jit
def add_under_a_lock(x_ptr, out_ptr, lock_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + at)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr + at, tl.load(out_ptr + at) + x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def test_no_race_between_programs_ordered_by_atomics() -> None:
    x, out = torch.randn(64), torch.empty(1)
    findings = sum_by_last_program[8].check(x, torch.empty(8), torch.zeros(1, dtype=torch.int32), wt.out(out), 8, 8)
    assert findings == []
    torch.testing.assert_close(out[0], x.sum())
    total = torch.zeros(8)
    assert add_under_a_lock[8].check(x, total, torch.zeros(1, dtype=torch.int32), 8) == []
    torch.testing.assert_close(total, x.view(8, 8).sum(0))


@wt.jit
def same_value(x_ptr, flag_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(flag_ptr + at * 0, 1)
    tl.store(x_ptr + at, tl.load(x_ptr + at))


def test_no_race_if_all_programs_store_the_same_value() -> None:
    assert same_value[3].check(torch.randn(8), torch.zeros(1, dtype=torch.int32), 8) == []
