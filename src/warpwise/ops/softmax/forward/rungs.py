"""The ladder of softmax, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise.device.target import power_of_two
from warpwise.operation import Rung, make_rung, sm_count
from warpwise.ops._dims import inner_size, is_last, length_along
from warpwise.ops.softmax import _columns, _launch, _packed_rows
from warpwise.ops.softmax._launch import (
    along_rows,
    in_registers,
    long_rows,
    per_block,
    per_thread,
    short_rows,
    split_rows,
)
from warpwise.ops.softmax.forward import k15_shared_columns
from warpwise.ops.softmax.forward.k09_columns import columns
from warpwise.ops.softmax.forward.k10_cluster_columns import cluster_columns
from warpwise.ops.softmax.forward.k13_packed_columns import packed_columns
from warpwise.ops.softmax.spec import KERNEL_DTYPES

HERE = Path(__file__).parent
REGISTER_COLUMNS, TRITON_COLUMNS = 32768, 65536
SPLIT_COLUMNS = 24576  # elements of a row: k12 computes longer ones if they are few
SPLIT_USE = 0.8  # rows for each SM below which k12 is faster than k06
FEW_USE = 0.125  # the same, than k05
CLUSTERED = {2: (512, 1200), 4: (384, 512)}  # elements of unaligned columns of k10: more than, and at most
LEAST_LOAD = 4  # bytes of a load of k10, of which the rows must be multiples


def triton_row(out: torch.Tensor, x: torch.Tensor) -> None:
    from warpwise.ops.softmax.forward.k07_triton_row import softmax_row

    rows, columns = out.shape
    block = power_of_two(columns)
    softmax_row[(rows,)](x, out, columns, BLOCK=block, num_warps=_launch.triton_warps(block))


def triton_online(out: torch.Tensor, x: torch.Tensor) -> None:
    from warpwise.ops.softmax.forward.k08_triton_online import softmax_online

    rows, columns = out.shape
    block = min(8192, power_of_two(columns))
    softmax_online[(rows,)](x, out, columns, BLOCK=block, num_warps=_launch.triton_warps(block))


def rung(name: str, idea: str, launch: _launch.Launch, *limits: Any, **more: Any) -> Rung:
    return _launch.rung(HERE, name, idea, launch, *limits, **more)


K01, K02, K03 = HERE / "k01_thread_per_row.cu", HERE / "k02_block_per_row.cu", HERE / "k03_warp_shuffle.cu"
K04, K05, K06 = HERE / "k04_online.cu", HERE / "k05_row_in_registers.cu", HERE / "k06_long_rows.cu"

RUNGS = (
    rung("k01_thread_per_row", "one thread per row", per_thread("softmax_thread_per_row", K01)),
    rung("k02_block_per_row", "one block per row, tree in shared memory", per_block("softmax_block_per_row", K02)),
    rung("k03_warp_shuffle", "reductions by warp shuffles", per_block("softmax_warp_shuffle", K03)),
    rung("k04_online", "maximum and sum in one pass", per_block("softmax_online", K04)),
    rung(
        "k05_row_in_registers",
        "16-byte loads, the row read once and kept",
        in_registers("softmax_row_in_registers", K05),
        REGISTER_COLUMNS,
        "1024 threads hold 32 each",
    ),
    rung("k06_long_rows", "online over 16-byte loads, read again from L2", long_rows("softmax_long_rows", K06)),
    rung(
        "k07_triton_row", "the row in one Triton block", along_rows(triton_row), TRITON_COLUMNS, "a larger block spills"
    ),
    rung("k08_triton_online", "online in Triton, any length", along_rows(triton_online)),
    rung("k09_columns", "lanes along columns, any dimension without a copy", columns),
    make_rung(
        HERE,
        "k10_cluster_columns",
        "a column in the registers of a cluster's blocks",
        cluster_columns,
        dtypes=KERNEL_DTYPES,
        limits=_columns.cluster_limits,
    ),
    make_rung(
        HERE,
        "k11_short_rows",
        "16-byte accesses to short rows of any alignment, through shared memory",
        short_rows("softmax_short_rows", HERE / "k11_short_rows.cu"),
        dtypes=KERNEL_DTYPES,
        limits=_launch.short_limits,
    ),
    rung(
        "k12_split_rows",
        "several blocks share a row",
        split_rows("softmax", HERE / "k12_split_rows.cu", 2),
        rows=_launch.MAX_SPLIT_ROWS,
    ),
    rung("k13_packed_columns", "16-byte accesses along dimension 0, of rows of any alignment", packed_columns),
    make_rung(
        HERE,
        "k14_packed_rows",
        "16-byte accesses to rows of any length and alignment, read once",
        _packed_rows.packed_rows("softmax", HERE / "k14_packed_rows.cu"),
        dtypes=KERNEL_DTYPES,
        limits=_packed_rows.packed_limits,
    ),
    make_rung(
        HERE,
        "k15_shared_columns",
        "whole columns in shared memory, in wide pieces of rows of any alignment",
        k15_shared_columns.shared_columns,
        dtypes=KERNEL_DTYPES,
        limits=k15_shared_columns.limits,
        configs=k15_shared_columns.configs,
    ),
)

BY_NAME = {each.name: each for each in RUNGS}


def default(input: torch.Tensor, dim: int) -> str | None:
    """The rung for these arguments, or None for PyTorch: for float64, and if the rung does not take the arguments."""
    if input.dtype not in KERNEL_DTYPES:
        return None
    adjacent = is_last(input, dim) or not input.numel()
    name = _along_rows(input, dim) if adjacent else _along_columns(input, dim)
    return name if BY_NAME[name].limits(input, dim) is None else None


def _along_rows(input: torch.Tensor, dim: int) -> str:
    """The rung if the elements of a row are adjacent. The first of these cases that applies:

    - k14, if it holds the rows, for 33 and more elements that are not a multiple of 16 bytes, for more than 32,768
      elements, and for more than 8192 if rows are fewer than half of the SMs;
    - k11 for short rows of a tensor that fills the GPU (``_launch.is_short``);
    - k12 for more than 24,576 elements if rows are fewer than an eighth of the SMs; for more than 32,768, four fifths;
    - k05 for up to 32,768 elements, which the registers of a block hold, else k06.
    """
    if _packed_rows.are_faster(REGISTER_COLUMNS, input, dim):
        return "k14_packed_rows"
    length = length_along(input, dim)
    if _launch.is_short(input, length):
        return "k11_short_rows"
    fits, rows = length <= REGISTER_COLUMNS, input.numel() // max(1, length)
    if length > SPLIT_COLUMNS and rows < sm_count(input) * (FEW_USE if fits else SPLIT_USE):
        return "k12_split_rows"
    return "k05_row_in_registers" if fits else "k06_long_rows"


def _along_columns(input: torch.Tensor, dim: int) -> str:
    """The rung if the elements of a row are not adjacent. The first of these cases that applies:

    - from 32 MB on, if a block of k09 does not hold its columns in 128 bytes of each row: for rows that are not
      multiples of 16 bytes k09 or k10 (``_unaligned_columns``); k15 if an SM has room for two of its tiles, else k13
      along the first dimension;
    - k13 for columns along the first dimension that a block does not hold, from 6.5 MB on or less (``is_packed``),
      unless clusters compute 2-byte elements of less than 8 MB;
    - k10 for columns that clusters compute faster (``is_for_cluster``);
    - k09.
    """
    if input.nbytes >= _columns.LARGE_BYTES and _columns.held_bytes(dim, input) < _columns.LINE:
        if name := _unaligned_columns(input, dim):
            return name
        if k15_shared_columns.is_wide(input, dim):
            return "k15_shared_columns"
        if input.numel() == length_along(input, dim) * inner_size(input, dim):
            return "k13_packed_columns"
    packed = _columns.is_packed(dim, input)
    if packed and (input.element_size() > 2 or input.nbytes >= _columns.PACKED_BYTES):
        return "k13_packed_columns"
    if _columns.is_for_cluster(dim, input):
        return "k10_cluster_columns"
    return "k13_packed_columns" if packed else "k09_columns"


def _unaligned_columns(input: torch.Tensor, dim: int) -> str | None:
    """The rung of large tensors whose rows are not multiples of 16 bytes, or None.

    A tile of k15 is then 128 bytes that are not whole lines. k09 for an even number of 2-byte elements whose columns a
    block holds in 64 bytes of each row: 370 x 81634 takes 60 µs, 74 by k15. k10, with 128 bytes, for longer ones up to
    1200 elements, and for columns of 385 to 512 4-byte elements: 501 x 75889 takes 134 µs, 150 by k15.
    """
    size, inner, length = input.element_size(), inner_size(input, dim), length_along(input, dim)
    if inner * size % _launch.PACK == 0 or inner * size % LEAST_LOAD:
        return None
    if size == 2 and _columns.held_bytes(dim, input) >= _columns.LINE // 2:
        return "k09_columns"
    least, most = CLUSTERED[size]
    clustered = least < length <= most and _columns.cluster_limits(input, dim) is None
    return "k10_cluster_columns" if clustered else None
