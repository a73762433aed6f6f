"""The ladder of softmax_backward, slowest idea first."""

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
from warpwise.ops.softmax.backward.k07_columns import columns
from warpwise.ops.softmax.backward.k09_cluster_columns import cluster_columns
from warpwise.ops.softmax.backward.k10_packed_columns import packed_columns
from warpwise.ops.softmax.spec import KERNEL_DTYPES

HERE = Path(__file__).parent
REGISTER_COLUMNS, TRITON_COLUMNS = 16384, 32768


def triton_row(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor) -> None:
    from warpwise.ops.softmax.backward.k05_triton_row import softmax_backward_row

    rows, columns = out.shape
    block = power_of_two(columns)
    softmax_backward_row[(rows,)](gradient, y, out, columns, BLOCK=block, num_warps=_launch.triton_warps(block))


def triton_loop(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor) -> None:
    from warpwise.ops.softmax.backward.k06_triton_loop import softmax_backward_loop

    rows, columns = out.shape
    block = min(8192, power_of_two(columns))
    softmax_backward_loop[(rows,)](gradient, y, out, columns, BLOCK=block, num_warps=_launch.triton_warps(block))


def rung(name: str, idea: str, launch: _launch.Launch, *limits: Any, **more: Any) -> Rung:
    return _launch.rung(HERE, name, idea, launch, *limits, **more)


K01, K02 = HERE / "k01_thread_per_row.cu", HERE / "k02_warp_shuffle.cu"
K03, K04 = HERE / "k03_row_in_registers.cu", HERE / "k04_long_rows.cu"

RUNGS = (
    rung("k01_thread_per_row", "one thread per row", per_thread("softmax_backward_thread_per_row", K01)),
    rung("k02_warp_shuffle", "one block per row, warp shuffles", per_block("softmax_backward_warp_shuffle", K02)),
    rung(
        "k03_row_in_registers",
        "16-byte loads, both rows read once and kept",
        in_registers("softmax_backward_row_in_registers", K03),
        REGISTER_COLUMNS,
        "1024 threads hold 16 of each input",
    ),
    rung("k04_long_rows", "16-byte loads, read again from L2", long_rows("softmax_backward_long_rows", K04)),
    rung(
        "k05_triton_row",
        "both rows in one Triton block",
        along_rows(triton_row),
        TRITON_COLUMNS,
        "a larger block spills",
    ),
    rung("k06_triton_loop", "a loop in Triton, any length", along_rows(triton_loop)),
    rung("k07_columns", "lanes along columns, any dimension without a copy", columns),
    rung(
        "k08_split_rows",
        "several blocks share a row",
        split_rows("softmax_backward", HERE / "k08_split_rows.cu", 1),
        rows=_launch.MAX_SPLIT_ROWS,
    ),
    make_rung(
        HERE,
        "k09_cluster_columns",
        "both columns in the registers of a cluster's blocks",
        cluster_columns,
        dtypes=KERNEL_DTYPES,
        limits=lambda grad_output, output, dim: _columns.cluster_limits(output, dim),
    ),
    rung("k10_packed_columns", "16-byte accesses along dimension 0, of rows of any alignment", packed_columns),
    make_rung(
        HERE,
        "k11_short_rows",
        "16-byte accesses to short rows of any alignment, through shared memory",
        short_rows("softmax_backward_short_rows", HERE / "k11_short_rows.cu"),
        dtypes=KERNEL_DTYPES,
        limits=_launch.short_limits,
    ),
    make_rung(
        HERE,
        "k12_packed_rows",
        "16-byte accesses to rows of any length and alignment, read once",
        _packed_rows.packed_rows("softmax_backward", HERE / "k12_packed_rows.cu"),
        dtypes=KERNEL_DTYPES,
        limits=_packed_rows.packed_limits,
    ),
)

BY_NAME = {each.name: each for each in RUNGS}


def default(grad_output: torch.Tensor, output: torch.Tensor, dim: int) -> str | None:
    """The rung for these arguments, or None for PyTorch: for float64, and if the rung does not take the arguments."""
    if output.dtype not in KERNEL_DTYPES:
        return None
    choose = _along_rows if is_last(output, dim) or not output.numel() else _along_columns
    name = choose(grad_output, output, dim)
    return name if BY_NAME[name].limits(grad_output, output, dim) is None else None


def _along_rows(grad_output: torch.Tensor, output: torch.Tensor, dim: int) -> str:
    """The rung if the elements of a row are adjacent. The first of these cases that applies:

    - k12, if it holds the rows, for 33 and more elements that are not a multiple of 16 bytes, for more than 16,384
      elements, and for more than 8192 if rows are fewer than half of the SMs;
    - k11 for short rows of a tensor that fills the GPU (``_launch.is_short``);
    - k03 for up to 16,384 elements, which the registers of a block hold;
    - k08 for rows that are fewer than the SMs, else k04.
    """
    if _packed_rows.are_faster(REGISTER_COLUMNS, grad_output, output, dim):
        return "k12_packed_rows"
    length = length_along(output, dim)
    if _launch.is_short(output, length):
        return "k11_short_rows"
    if length <= REGISTER_COLUMNS:
        return "k03_row_in_registers"
    return "k08_split_rows" if output.numel() // length < sm_count(output) else "k04_long_rows"


def _along_columns(grad_output: torch.Tensor, output: torch.Tensor, dim: int) -> str:
    """The rung if the elements of a row are not adjacent. The first of these cases that applies:

    - from 32 MB on, and for 4-byte elements from 8 MB on if rows are not whole sectors, if a block of k07 holds its
      columns, but less than 128 bytes of each row: k10 along the first dimension for an odd number of 2-byte elements,
      which k07 loads singly; else k09, or k07 on GPUs without clusters;
    - k10 for columns along the first dimension that a block does not hold, from 8 MB on (2-byte elements: 2 MB) or less
      (``is_packed``);
    - k09 for columns that clusters compute faster (``is_for_cluster``);
    - k07.
    """
    size, inner = output.element_size(), inner_size(output, dim)
    # A block has 64 bytes of each row, which are in three sectors instead of two if rows are not whole sectors.
    least = _columns.PACKED_BYTES if size >= 4 and inner * size % _columns.SECTOR else _columns.LARGE_BYTES
    if output.nbytes >= least and 0 < _columns.held_bytes(dim, grad_output, output) < _columns.LINE:
        if size == 2 and inner % 2 == 1 and output.numel() == length_along(output, dim) * inner:
            return "k10_packed_columns"
        return "k09_cluster_columns" if _columns.cluster_limits(output, dim) is None else "k07_columns"
    if _columns.is_packed(dim, output, _columns.BACKWARD_PACKED):
        return "k10_packed_columns"
    return "k09_cluster_columns" if _columns.is_for_cluster(dim, output) else "k07_columns"
