"""Blocks that exchange partial sums in one launch: results are right, free of races, and equal in each call."""

from __future__ import annotations

import pytest
import torch

from warpwise import operation, ops
from warpwise.operation import assume_sm_count


@pytest.mark.parametrize("sms", [2, 16, 132])
@pytest.mark.parametrize("rung,rows,columns,dtype", [
    ("k08", 3000, 12, torch.bfloat16), ("k08", 600, 30, torch.float32),
    ("k10", 3000, 2, torch.float32), ("k10", 1500, 15, torch.bfloat16), ("k10", 500, 64, torch.bfloat16),
    ("k10", 700, 37, torch.float32), ("k10", 4000, 1, torch.bfloat16), ("k10", 600, 130, torch.float32),
])  # fmt: skip
def test_parts_of_columns(rung, rows, columns, dtype, sms):
    torch.manual_seed(rows + columns)
    x = torch.randn(rows, columns).to(dtype)
    with assume_sm_count(sms):
        sums = ops.reduce_sum(x, 0, rung=rung)
        assert torch.equal(sums, ops.reduce_sum(x, 0, rung=rung))
    assert_close(sums, x.double().sum(0), dtype)


@pytest.mark.parametrize("rows,columns,dtype", [(20001, 40, torch.float32), (15001, 33, torch.bfloat16)])
def test_loads_in_flight_of_parts(rows, columns, dtype):
    torch.manual_seed(rows)
    x = torch.randn(rows, columns).to(dtype)
    with assume_sm_count(132):
        for config in operation.get("reduce_sum").rung("k10").configs(x, 0):
            sums = ops.reduce_sum(x, 0, rung=f"k10_packed_columns@{config}")
            assert torch.equal(sums, ops.reduce_sum(x, 0, rung=f"k10_packed_columns@{config}"))
            assert_close(sums, x.double().sum(0), dtype)


@pytest.mark.parametrize("sms", [2, 16, 132])
@pytest.mark.parametrize("shape,dim", [((5000,), None), ((30000,), None), ((3, 20001), -1)])
def test_parts_of_rows(shape, dim, sms):
    torch.manual_seed(shape[0])
    x = torch.randn(shape)
    with assume_sm_count(sms):
        sums = ops.reduce_sum(x, dim, rung="k09")
    assert_close(sums, x.double().sum(dim), x.dtype)


@pytest.mark.parametrize("sms", [2, 16, 132])
@pytest.mark.parametrize("rung,rows,columns,across", [
    ("k03", 3, 30001, False), ("k06", 3, 30001, False), ("k03", 2, 40000, False), ("k06", 20, 5001, False),
    ("k04", 7, 3001, True), ("k04", 33, 2500, True),
])  # fmt: skip
def test_parts_of_a_product(rung, rows, columns, across, sms):
    torch.manual_seed(rows)
    a = torch.randn(columns, rows).t() if across else torch.randn(rows, columns)
    x = torch.randn(columns)
    with assume_sm_count(sms):
        assert_close(ops.matvec(a, x, rung=rung), a.double() @ x.double(), a.dtype)


def assert_close(found, wanted, dtype):
    error = (found.double() - wanted).abs().max() / wanted.abs().max()
    assert error < (1e-2 if dtype == torch.bfloat16 else 1e-5)
