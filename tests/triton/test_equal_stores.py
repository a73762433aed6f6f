"""Programs that all compute a table, and read it: each reads a value that it has stored itself."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import DataRace


@wt.jit
def table_of_all(table_ptr, out_ptr, HOW: tl.constexpr, BLOCK: tl.constexpr):
    program, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = at * at + 1
    if HOW == "other values":
        value += program
    if HOW == "by the first" and program == 0:
        tl.store(table_ptr + at, value)
    elif HOW == "half":
        tl.store(table_ptr + at, value, mask=(program == 0) | (at < BLOCK // 2))
    elif HOW != "by the first":
        tl.store(table_ptr + at, value)
    tl.debug_barrier()
    tl.store(out_ptr + program, tl.load(table_ptr + BLOCK - 1 - program))
    if HOW == "changed later":
        tl.debug_barrier()
        tl.store(table_ptr + BLOCK - 1 - program, 0)


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize(
    "how, races",
    [("all", False), ("by the first", True), ("half", True), ("other values", True), ("changed later", True)],
)
def test_tables(how: str, races: bool, num_warps: int) -> None:
    table, out = torch.zeros(64, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    findings = table_of_all[4].check(table, wt.out(out), how, 64, num_warps=num_warps)
    assert {finding.kind for finding in findings} == ({DataRace} if races else set())


@wt.jit
def product_of_wrapped_rows(x_ptr, y_ptr, out_ptr, n, K: tl.constexpr, BLOCK: tl.constexpr):
    rows, k = tl.arange(0, BLOCK) % n, tl.arange(0, K)
    x = tl.load(x_ptr + rows[:, None] * K + k[None, :])
    y = tl.load(y_ptr + rows[None, :] * K + k[:, None])
    tl.store(out_ptr + rows[:, None] * n + rows[None, :], tl.dot(x, y, input_precision="ieee"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_equal_rows_and_columns_have_equal_products(dtype: torch.dtype) -> None:
    """Several lanes store the product of the same row and column: they store the same value."""
    x, y = torch.randn(2, 45, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    out = torch.empty(45, 45)
    assert product_of_wrapped_rows[1].check(x, y, wt.out(out), 45, 64, 128) == []
    torch.testing.assert_close(out, x.float() @ y.float().T, rtol=1e-5, atol=1e-4)
