"""Elements that several lanes of one program load, change and store: all changes but one are lost."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import DataRace


@wt.jit
def histogram(x_ptr, bins_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    bin = tl.load(x_ptr + at, mask=at < n, other=0)
    count = tl.load(bins_ptr + bin, mask=at < n)
    tl.store(bins_ptr + bin, count + 1, mask=at < n)


@pytest.mark.parametrize("n", [50, 64])
def test_a_histogram_without_atomics(n):
    x, bins = torch.randint(0, 8, (64,), dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    with pytest.raises(DataRace, match=r"lanes load, change and store bins_ptr\[\d\]: one of the changes is kept") as e:
        histogram[1](x, bins, n, BLOCK=64)
    assert "tl.atomic_add" in str(e.value)


def test_a_permutation_has_no_finding():
    x, bins = torch.randperm(64).int(), torch.zeros(64, dtype=torch.int32)
    histogram[1](x, bins, 64, BLOCK=64)
    assert bins.eq(1).all()


@wt.jit
def wrapped(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK) % n
    tl.store(y_ptr + at, tl.load(y_ptr + at) + tl.load(x_ptr + at))


@pytest.mark.parametrize("n", [1, 2, 5, 48])
def test_lanes_that_wrap_compute_the_same_value(n):
    x, y = torch.arange(64.0), torch.ones(64)
    wrapped[1](x, y, n, BLOCK=64)
    assert torch.equal(y[:n], x[:n] + 1)


@wt.jit
def broadcast(x_ptr, y_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)[:, None] + tl.zeros((ROWS, COLUMNS), dtype=tl.int32)
    columns = tl.arange(0, COLUMNS)[None, :]
    sums = tl.sum(tl.load(x_ptr + rows * COLUMNS + columns), axis=1)[:, None]
    tl.store(y_ptr + rows, tl.load(y_ptr + rows) + sums)


def test_broadcast_lanes_compute_the_same_value():
    x, y = torch.arange(128.0), torch.ones(8)
    broadcast[1](x, y, ROWS=8, COLUMNS=16)
    assert torch.equal(y, x.view(8, 16).sum(1) + 1)
