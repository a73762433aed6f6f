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
SPLIT_USE = 0.8  # rows for each SM: k12 replaces k06 for fewer,
FEW_USE = 0.125  # and k05 for fewer than these


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


def default(input: torch.Tensor, dim: int) -> str | None:
    """k14 for rows of at least 33 elements whose length is not a multiple of 16 bytes, for rows too long for k05, and
    for few long rows.

    k05 for other rows that fit in registers, k11 for short ones of a tensor that fills the GPU. Where k14 does not hold
    a row, k12 if k06 would use less than four fifths of the SMs, or k05 an eighth; else k06.

    If the elements of a row are not adjacent: k15 from 32 MB on, if a block of k09 does not hold 128 bytes of each row
    and two tiles of k15 fit. Else k13 along the first dimension, from 8 MB on (up to 64 columns of which clusters would
    be few: 2 MB, or less if a part takes k09 long) if a block does not hold its columns, and from 32 MB on if it
    does not hold 128 bytes of each row; else k10 for columns too long for a block of 512 threads; else k09. PyTorch if
    the rung does not take the arguments.
    """
    length = length_along(input, dim)
    if is_last(input, dim) or not input.numel():
        rows, short = input.numel() // max(1, length), _launch.is_short(input, length)
        few = sm_count(input) * (SPLIT_USE if length > REGISTER_COLUMNS else FEW_USE)
        long = RUNGS[11] if rows < few else RUNGS[5] if length > REGISTER_COLUMNS else RUNGS[4]
        choice = RUNGS[10] if short else RUNGS[4] if length <= SPLIT_COLUMNS else long
        if _packed_rows.are_faster(REGISTER_COLUMNS, input, dim):
            choice = RUNGS[13]
    else:
        packed, clusters = _columns.is_packed(dim, input), _columns.is_for_cluster(dim, input)
        narrow = input.nbytes >= _columns.LARGE_BYTES and _columns.held_bytes(dim, input) < _columns.LINE
        first = input.numel() == length * inner_size(input, dim)
        if narrow and k15_shared_columns.is_wide(input, dim):
            choice = RUNGS[14]
        else:
            choice = RUNGS[12] if packed or narrow and first else RUNGS[9] if clusters else RUNGS[8]
    return None if input.dtype not in KERNEL_DTYPES or choice.limits(input, dim) else choice.name
