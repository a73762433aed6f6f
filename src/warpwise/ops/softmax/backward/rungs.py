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


def default(grad_output: torch.Tensor, output: torch.Tensor, dim: int) -> str | None:
    """k12 for rows of at least 33 elements whose length is not a multiple of 16 bytes, for rows too long for k03, and
    for few long rows.

    k03 for other rows that fit in registers, k11 for short ones of a tensor that fills the GPU. Where k12 does not hold
    a row, k08 for rows that are fewer than the SMs; else k04.

    If the elements of a row are not adjacent, the tensor has at least 32 MB, and a block of k07 holds less than 128
    bytes of each row: k10 along the first dimension for 2-byte elements that k07 would load singly; else k09.

    Otherwise k10 from 8 MB on (columns of 2 bytes: 2 MB; up to 64 columns of which clusters would be few: 2 MB, or
    less if a part takes k07 long) along the first dimension, if a block does not hold its columns; else k09 for columns
    too long for a block of 512 threads, up to 16 MB, if its clusters are not few; else k07. PyTorch if the rung does
    not take the arguments.
    """
    length = length_along(output, dim)
    if is_last(output, dim) or not output.numel():
        rows = output.numel() // max(1, length)
        long = RUNGS[7] if rows < sm_count(output) else RUNGS[3]
        choice = RUNGS[2] if length <= REGISTER_COLUMNS else long
        if _packed_rows.are_faster(REGISTER_COLUMNS, grad_output, output, dim):
            choice = RUNGS[11]
        elif _launch.is_short(output, length):
            choice = RUNGS[10]
    else:
        least = _columns.HALF_PACKED_BYTES if output.element_size() == 2 else _columns.PACKED_BYTES
        packed = _columns.is_packed(dim, output, least)
        clusters = _columns.is_for_cluster(dim, output)
        held = _columns.held_bytes(dim, grad_output, output) if output.nbytes >= _columns.LARGE_BYTES else 0
        if 0 < held < _columns.LINE:
            inner = inner_size(output, dim)
            packed = output.element_size() == 2 and inner % 2 == 1 and output.numel() == length * inner
            clusters = _columns.cluster_limits(output, dim) is None
        choice = RUNGS[9] if packed else RUNGS[8] if clusters else RUNGS[6]
    return None if output.dtype not in KERNEL_DTYPES or choice.limits(grad_output, output, dim) else choice.name
