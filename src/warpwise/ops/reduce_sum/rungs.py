"""The ladder of reduce_sum, slowest idea first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops._dims import inner_size, is_last, length_along
from warpwise.ops._short_rows import WARPS, most_columns
from warpwise.ops.reduce_sum.column_geometry import (
    FEW_COLUMNS,
    LARGE,
    column_geometry,
    even_geometry,
    has_short_words,
    is_tiled,
    is_very_long,
    words_fill_sms,
)
from warpwise.ops.reduce_sum.columns import (
    adjacent_columns,
    adjacent_limits,
    columns,
    is_one_block,
    packed_columns,
    packed_configs,
)
from warpwise.ops.reduce_sum.row_geometry import (
    BATCH,
    BLOCK,
    BLOCKS_PER_SM,
    VECTOR,
    WARP,
    batch_of,
    is_shared,
    parts_of,
    sharing_blocks,
    team_of,
    threads_of,
    vector_parts,
)
from warpwise.ops.reduce_sum.spec import KERNEL_DTYPES

HERE = Path(__file__).parent
BLOCK_OF_TEAMS = 128  # threads of a block of k06 for several rows
SHORT_ROW = 16  # elements of a row of k11, at most
SHORT_NARROW_ROW = 64  # the same for 2-byte elements
MANY_COLUMNS, LONG_COLUMN = 4096, 2048  # of 2-byte elements, in tensors of 16 MB: see ``default``
MOST_BLOCKS = 2**31 - 1

Launch = Callable[..., None]


def over_rows(launch: Launch) -> Launch:
    """``launch(sums, x)`` on x (rows, columns), for any shape; if ``dim`` is not the last dimension, x is a copy."""

    def launch_over(output: torch.Tensor, input: torch.Tensor, dim: int | None) -> None:
        if dim is not None and not is_last(input, dim):
            input, dim = input.movedim(dim, -1).contiguous(), -1
        columns = input.numel() if dim is None else length_along(input, dim)
        launch(output.view(-1), input.view(output.numel(), columns))

    return launch_over


def atomically(launch: Launch) -> Launch:
    """``launch(totals, x)`` adds to float32 zeros, which are then converted to the dtype of the output."""

    def launch_atomically(sums: torch.Tensor, x: torch.Tensor) -> None:
        totals = sums if sums.dtype == torch.float32 else torch.empty_like(sums, dtype=torch.float32)
        totals.zero_()
        if x.numel():
            launch(totals, x)
        if totals is not sums:
            sums.copy_(totals)

    return over_rows(launch_atomically)


ATOMIC_PER_ELEMENT = cuda.load(HERE / "k01_atomic_per_element.cu")
TWO_PASSES = cuda.load(HERE / "k06_two_passes.cu")
LAST_BLOCK = cuda.load(HERE / "k09_last_block.cu")
SHORT_ROWS = cuda.load(HERE / "k11_short_rows.cu")


@atomically
def atomic_per_element(totals: torch.Tensor, x: torch.Tensor) -> None:
    kernel = ATOMIC_PER_ELEMENT[f"sum_atomic_per_element<{cuda.ctype(x.dtype)}>"]
    kernel[cdiv(x.numel(), BLOCK), BLOCK](x, totals, *x.shape)


def one_element_a_thread(kernel: str, file: str) -> Launch:
    module = cuda.load(HERE / file)

    def launch(totals: torch.Tensor, x: torch.Tensor) -> None:
        rows, columns = x.shape
        parts = cdiv(columns, BLOCK)
        module[f"{kernel}<{cuda.ctype(x.dtype)}>"][rows * parts, BLOCK](x, totals, columns, parts)

    return atomically(launch)


def resident_grid(kernel: str, file: str) -> Launch:
    module = cuda.load(HERE / file)

    def launch(totals: torch.Tensor, x: torch.Tensor) -> None:
        rows, columns = x.shape
        parts = parts_of(x, each=4 * BLOCK)
        module[f"{kernel}<{cuda.ctype(x.dtype)}>"][rows * parts, BLOCK](x, totals, columns, parts)

    return atomically(launch)


def _pass(sums: torch.Tensor, x: torch.Tensor, parts: int) -> None:
    rows, columns = x.shape
    threads, batch = BLOCK, BATCH
    if parts == 1:
        threads = threads_of(x)
        batch = batch_of(x, threads)
    together = BLOCK_OF_TEAMS // threads if threads <= WARP else 1
    kernel = TWO_PASSES[f"sum_two_passes<{cuda.ctype(x.dtype)}, {cuda.ctype(sums.dtype)}, {threads}, {batch}>"]
    kernel[(cdiv(rows, together), parts), (threads, together)](x, cuda.out(sums), rows, columns)


@over_rows
def two_passes(sums: torch.Tensor, x: torch.Tensor) -> None:
    if (parts := vector_parts(x)) == 1:
        _pass(sums, x, 1)
        return
    partial = x.new_empty((len(x), parts), dtype=torch.float32)
    _pass(partial, x, parts)
    _pass(sums, partial, 1)


@over_rows
def triton_two_passes(sums: torch.Tensor, x: torch.Tensor) -> None:
    from warpwise.ops.reduce_sum.k07_triton_two_passes import sum_two_passes

    rows, columns = x.shape
    block = min(4096, max(128, 1 << (columns - 1).bit_length()))
    parts = parts_of(x, each=block)
    partial = sums if parts == 1 else x.new_empty(rows * parts, dtype=torch.float32)
    sum_two_passes[(rows * parts,)](x, partial, columns, parts, BLOCK=block, num_warps=max(1, block // 512))
    if parts > 1:
        block = 1 << (parts - 1).bit_length()
        sum_two_passes[(rows,)](partial, sums, parts, 1, BLOCK=block, num_warps=4)


def short_rows(output: torch.Tensor, input: torch.Tensor, dim: int | None) -> None:
    if dim is not None and not is_last(input, dim):
        input, dim = input.movedim(dim, -1).contiguous(), -1
    input = input.clone() if input.data_ptr() % VECTOR else input
    rows, columns = output.numel(), input.numel() if dim is None else length_along(input, dim)
    shape = team_of(rows, columns, input.element_size(), sm_count(input))
    kernel = SHORT_ROWS[f"sum_short_rows<{cuda.ctype(input.dtype)}, {shape.lanes}, {shape.values}>"]
    kernel[shape.grid(rows), (WARP, WARPS)](input, cuda.out(output), rows, columns)


@over_rows
def last_block(sums: torch.Tensor, x: torch.Tensor) -> None:
    rows, columns = x.shape
    if not is_shared(rows, columns, x.element_size(), sm_count(x)):
        _pass(sums, x, 1)
        return
    threads, batch, parts = sharing_blocks(x)
    workspace = semaphores(x, 2 * rows * (parts - 1)) if parts > 1 else None
    kernel = LAST_BLOCK[f"sum_last_block<{cuda.ctype(x.dtype)}, {cuda.ctype(sums.dtype)}, {threads}, {batch}>"]
    kernel[(rows, parts), threads](x, cuda.out(sums), workspace, rows, columns)


def limits(input: torch.Tensor, dim: int | None) -> str | None:
    """The limit of k01 to k10: a grid has enough blocks for one per 256 elements of a row, as in k01 to k03."""
    columns = max(1, input.numel() if dim is None else length_along(input, dim))
    blocks = input.numel() // columns * cdiv(columns, BLOCK)
    return (
        f"takes up to {MOST_BLOCKS} blocks of {BLOCK} elements of a row, not {blocks}" if blocks > MOST_BLOCKS else None
    )


def short_limits(input: torch.Tensor, dim: int | None) -> str | None:
    columns, most = input.numel() if dim is None else length_along(input, dim), most_columns(input.element_size())
    return f"takes rows of up to {most} elements, not {columns}" if columns > most else None


def rung(name: str, idea: str, launch: Launch, deterministic: bool = False) -> Rung:
    return make_rung(HERE, name, idea, launch, dtypes=KERNEL_DTYPES, limits=limits, deterministic=deterministic)


RUNGS = (
    rung("k01_atomic_per_element", "one atomic per element", atomic_per_element),
    rung(
        "k02_interleaved_addressing",
        "a tree in shared memory, interleaved addressing",
        one_element_a_thread("sum_interleaved_addressing", "k02_interleaved_addressing.cu"),
    ),
    rung(
        "k03_sequential_addressing",
        "a tree in shared memory, sequential addressing",
        one_element_a_thread("sum_sequential_addressing", "k03_sequential_addressing.cu"),
    ),
    rung(
        "k04_add_during_load",
        "many elements per thread added before the tree",
        resident_grid("sum_add_during_load", "k04_add_during_load.cu"),
    ),
    rung("k05_warp_shuffle", "the tree by warp shuffles", resident_grid("sum_warp_shuffle", "k05_warp_shuffle.cu")),
    rung("k06_two_passes", "16-byte loads, partial sums in a fixed order", two_passes, deterministic=True),
    rung("k07_triton_two_passes", "the same in Triton", triton_two_passes, deterministic=True),
    rung("k08_columns", "lanes along columns, any dimension without a copy", columns, deterministic=True),
    rung("k09_last_block", "one launch: a row's last block adds its partial sums", last_block, deterministic=True),
    make_rung(
        HERE,
        "k10_packed_columns",
        "16-byte loads along dimension 0, of rows of any alignment",
        packed_columns,
        dtypes=KERNEL_DTYPES,
        limits=limits,
        deterministic=True,
        configs=packed_configs,
    ),
    make_rung(
        HERE,
        "k11_short_rows",
        "16-byte loads of short rows of any alignment, through shared memory",
        short_rows,
        dtypes=KERNEL_DTYPES,
        limits=short_limits,
        deterministic=True,
    ),
    make_rung(
        HERE,
        "k12_adjacent_columns",
        "a thread sums the adjacent columns of one word of 4 to 16 bytes",
        adjacent_columns,
        dtypes=KERNEL_DTYPES,
        limits=adjacent_limits,
        deterministic=True,
    ),
)


def default(input: torch.Tensor, dim: int | None) -> str | None:
    """The rung for these arguments, or None for PyTorch.

    For all elements or along the last dimension: k11 for rows of up to 16 elements (2 bytes: 64), k09 for rows that
    several blocks share (``is_shared``) if there are at most four for each SM, else k06. Along another dimension, the
    first of these cases that applies:

    - k12 for columns of up to 32 elements whose 16-byte words give each SM 256 threads;
    - of up to 64 columns along the first dimension, k10 if k08 would divide them into parts, or if one block of k10
      replaces a larger block of k08, else k08;
    - k12 for longer columns in tensors of 4 MB and more whose words of 8 bytes (2-byte elements: 4 or 8) give each SM
      one or two blocks (at least 1.5 for columns of 5000 and more elements);
    - along a middle dimension, PyTorch for 4096 and more columns of more than 2048 2-byte elements, from 16 MB on, else
      k08;
    - along the first dimension, k10 for columns of 5000 and more 4-byte elements, from 64 MB on, and for 2-byte
      elements from 4 MB on, unless k08 has tiles for their columns, or, where rows are not a multiple of 16 bytes, even
      blocks;
    - k08.
    """
    if input.dtype not in KERNEL_DTYPES or limits(input, dim):
        return None
    if dim is None or is_last(input, dim):
        most = SHORT_ROW if input.element_size() >= 4 else SHORT_NARROW_ROW
        length = input.numel() if dim is None else length_along(input, dim)
        if dim is not None and 0 < length <= most:
            return "k11_short_rows"
        rows, sms = input.numel() // max(1, length), sm_count(input)
        shared = 2 * rows <= BLOCKS_PER_SM * sms and is_shared(rows, length, input.element_size(), sms)
        return "k09_last_block" if shared else "k06_two_passes"
    length = length_along(input, dim)
    columns = input.numel() // max(1, length)
    size, sms, stride = input.element_size(), sm_count(input), inner_size(input, dim) * input.element_size()
    fills = columns * size >= VECTOR * BLOCK * sms
    if fills and length and has_short_words(length, stride) and adjacent_limits(input, dim) is None:
        return "k12_adjacent_columns"
    if 0 < columns <= FEW_COLUMNS and columns == inner_size(input, dim):
        shape = column_geometry(columns, length, size, sms)
        packed = shape.parts > 1 or shape.threads > BLOCK and is_one_block(input, dim)
        return "k10_packed_columns" if packed else "k08_columns"
    if words_fill_sms(columns, stride, length, size, sms) and adjacent_limits(input, dim) is None:
        return "k12_adjacent_columns"
    if columns != inner_size(input, dim):
        many = size < 4 and columns >= MANY_COLUMNS and length > LONG_COLUMN and input.nbytes >= 4 * LARGE
        return None if many else "k08_columns"
    if is_very_long(columns, length, size):
        return "k10_packed_columns"
    if size >= 4 or input.nbytes < LARGE or is_tiled(columns, length, size, sms):
        return "k08_columns"
    aligned = columns * size % VECTOR == 0
    return "k08_columns" if not aligned and even_geometry(columns, length, size, sms) else "k10_packed_columns"
