"""Elements of global memory that one lane of a program stores and another one loads, or stores, without a barrier."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import DataRace


@wt.jit
def exchange(x_ptr, y_ptr, out_ptr, HOW: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if HOW == "read after write":
        tl.store(y_ptr + at, tl.load(x_ptr + at))
        tl.store(out_ptr + at, tl.load(y_ptr + BLOCK - 1 - at))
    elif HOW == "barrier":
        tl.store(y_ptr + at, tl.load(x_ptr + at))
        tl.debug_barrier()
        tl.store(out_ptr + at, tl.load(y_ptr + BLOCK - 1 - at))
    elif HOW == "reduction":
        tl.store(y_ptr + at, tl.load(x_ptr + at))
        total = tl.sum(tl.load(x_ptr + at), axis=0)
        tl.store(out_ptr + at, tl.load(y_ptr + BLOCK - 1 - at) + total)
    elif HOW == "atomic":
        tl.store(y_ptr + at, tl.load(x_ptr + at))
        count = tl.atomic_add(y_ptr + BLOCK, 1.0)
        tl.store(out_ptr + at, tl.load(y_ptr + BLOCK - 1 - at) + count)
    elif HOW == "atomic without result":
        tl.store(y_ptr + at, tl.load(x_ptr + at))
        tl.atomic_add(y_ptr + BLOCK, 1.0)
        tl.store(out_ptr + at, tl.load(y_ptr + BLOCK - 1 - at))
    elif HOW == "same lane":
        tl.store(y_ptr + at, tl.load(x_ptr + at))
        tl.store(out_ptr + at, tl.load(y_ptr + at))
    elif HOW == "same lane, masked":
        tl.store(y_ptr + at, tl.load(x_ptr + at))
        tl.store(out_ptr + at, tl.load(y_ptr + at, mask=at > 7, other=0.0))
    elif HOW == "write after read":
        x = tl.load(x_ptr + at + 1, mask=at < BLOCK - 1, other=0.0)
        tl.store(x_ptr + at, x)
    elif HOW == "write after read, barrier":
        x = tl.load(x_ptr + at + 1, mask=at < BLOCK - 1, other=0.0)
        tl.debug_barrier()
        tl.store(x_ptr + at, x)
    elif HOW == "write after write":
        tl.store(y_ptr + at, at.to(tl.float32) + 1)
        tl.store(y_ptr + BLOCK - 1 - at, at.to(tl.float32) - 5)
    elif HOW == "equal values":
        tl.store(y_ptr + at, at.to(tl.float32) + 1)
        tl.store(y_ptr + BLOCK - 1 - at, (BLOCK - at).to(tl.float32))
    elif HOW == "scalars":
        for i in range(4):
            tl.store(y_ptr + i + 1, tl.load(y_ptr + i) + 1)
    elif HOW == "a scalar, then a block":
        tl.store(y_ptr + 3, 1.0)
        tl.store(out_ptr + at, tl.load(y_ptr + at))


@pytest.mark.parametrize(
    "how, message",
    [
        ("read after write", "read of y_ptr[63], which another lane of the program writes"),
        ("barrier", ""),
        ("reduction", ""),
        ("atomic", ""),
        ("atomic without result", "read of y_ptr[63], which another lane of the program writes"),
        ("same lane", ""),
        ("same lane, masked", ""),
        ("write after read", "write of x_ptr[1], which another lane of the program reads"),
        ("write after read, barrier", ""),
        ("write after write", "write of y_ptr[63], which another lane of the program writes"),
        ("equal values", ""),
        ("scalars", ""),
        ("a scalar, then a block", "read of y_ptr[3], which another lane of the program writes"),
    ],
)
def test_lanes_that_access_one_element(how: str, message: str) -> None:
    x, y, out = torch.rand(64), torch.zeros(65), torch.zeros(64)
    findings = exchange[1].check(x, y, out, how, 64)
    assert [finding.kind for finding in findings] == ([DataRace] if message else [])
    if message:
        assert message in findings[0].message
        assert "tl.debug_barrier()" in findings[0].hint
        assert findings[0].other is not None and findings[0].other.line < findings[0].access.line


def test_one_warp_needs_no_barrier() -> None:
    x, y, out = torch.rand(64), torch.zeros(65), torch.zeros(64)
    assert exchange[1].check(x, y, out, "read after write", 64, num_warps=1) == []


@wt.jit
def two_programs(x_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, 2 * x)


def test_programs_have_phases_of_their_own() -> None:
    assert two_programs[8].check(torch.ones(512), 64) == []


@wt.jit
def two_readers(x_ptr, y_ptr, ORDER: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for place in range(0, 4 * BLOCK, BLOCK):  # of other elements, without a barrier
        tl.store(x_ptr + BLOCK + place + at, tl.load(x_ptr + BLOCK + place + at) + 1)
    if ORDER == "the other lane first":
        reversed_ = tl.load(x_ptr + BLOCK - 1 - at)
        same = tl.load(x_ptr + at)
    elif ORDER == "the other lane last":
        same = tl.load(x_ptr + at)
        reversed_ = tl.load(x_ptr + BLOCK - 1 - at)
    else:
        same = tl.load(x_ptr + at)
        reversed_ = tl.load(x_ptr + at)
    tl.store(y_ptr + at, reversed_)
    tl.store(x_ptr + at, same + 1)


@pytest.mark.parametrize(
    "order, races", [("the other lane first", 1), ("the other lane last", 1), ("the same lane", 0)]
)
def test_each_of_two_readers_counts(order: str, races: int) -> None:
    findings = two_readers[1].check(torch.ones(5 * 64), torch.zeros(64), order, 64)
    assert [finding.kind for finding in findings] == [DataRace] * races
