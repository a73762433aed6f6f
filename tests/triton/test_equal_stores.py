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
