"""Launchers that the ladders of softmax and softmax_backward share. A launcher fills ``out`` from one or two inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.device.target import power_of_two
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops._dims import inner_size, is_last, length_along
from warpwise.ops._short_rows import PACK, WARPS, most_columns, team
from warpwise.ops.softmax.spec import KERNEL_DTYPES

BLOCK = 256  # kThreads of the kernels with one block per row
WARP = 32
TEAMS_BLOCK = 128  # threads of a block that has several rows, each in two lanes up to a warp
SINGLE_BLOCKS = (256, 512)  # threads of a block that has a row in each thread
MOST_SINGLE = 8  # blocks for each SM up to which these have the smaller size
LONG_BLOCK = 1024  # kThreads of the kernels for long rows
FEWEST_STEPS = 2  # 16-byte vectors of a thread in a part of a split row, at least
BLOCKS_AN_SM = 8  # blocks for each SM that split rows have, at most
SHORT_VALUES = 8  # elements of a lane of ``short_rows``
SHORT_ELEMENTS = 1 << 18  # of a tensor that fills the GPU: from there on ``short_rows`` is faster
SHORT_BLOCKS = 5  # blocks for each SM: ``short_rows`` is also faster where ``in_registers`` would have more
MAX_SPLIT_ROWS = 65535  # blocks of a grid in y
MAX_COLUMNS = 2**30  # a column index is an int
MAX_ROWS = 2**31 - 1  # blocks of a grid in x

Launch = Callable[..., None]


def along_rows(launch: Launch) -> Launch:
    """``launch(out, *inputs)`` on (rows, columns), for any shape; on copies if ``dim`` is not the last dimension."""

    def launch_along(output: torch.Tensor, *args: Any) -> None:
        *inputs, dim = args
        columns = length_along(output, dim)
        if is_last(output, dim):
            launch(output.view(-1, columns), *(value.view(-1, columns) for value in inputs))
            return
        moved = [value.movedim(dim, -1).contiguous() for value in inputs]
        result = torch.empty_like(moved[0])
        launch(result.view(-1, columns), *(value.view(-1, columns) for value in moved))
        output.copy_(result.movedim(-1, dim))

    return launch_along


def aligned(inputs: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, or copies of those whose addresses are not multiples of 16 bytes."""
    return [value.clone() if value.data_ptr() % PACK else value for value in inputs]


def along_columns(launch: Launch) -> Launch:
    """``launch(out, *inputs)`` on (length, columns), inputs aligned to 16 bytes; on copies if ``dim`` is not the first.

    Dimensions of one element before ``dim`` do not count.
    """

    def launch_along(output: torch.Tensor, *args: Any) -> None:
        *inputs, dim = args
        length, result = length_along(output, dim), output
        moved = output.numel() != inner_size(output, dim) * length
        if moved:
            inputs = [value.movedim(dim, 0).contiguous() for value in inputs]
            result = torch.empty_like(inputs[0])
        inputs = aligned(inputs)
        launch(result.view(length, -1), *(value.view(length, -1) for value in inputs))
        if moved:
            output.copy_(result.movedim(0, dim))

    return launch_along


def triton_warps(block: int) -> int:
    """Warps of a program: 32 elements per thread, up to 32 warps, the largest block."""
    return min(32, max(1, block // 1024))


def is_aligned(bytes: int, *tensors: torch.Tensor) -> bool:
    """True if every row of every tensor is a multiple of ``bytes`` and aligned to them."""
    addresses = (address for value in tensors for address in (value.data_ptr(), value.shape[1] * value.element_size()))
    return all(address % bytes == 0 for address in addresses)


class RowTile(NamedTuple):
    """Template arguments of kernels that hold a row in registers: ``threads`` with ``vectors`` of ``bytes`` each."""

    threads: int
    vectors: int
    aligned: bool
    bytes: int


def row_tile(out: torch.Tensor, *inputs: torch.Tensor) -> RowTile:
    """The tile for rows of ``out`` and of one or two inputs."""
    itemsize = out.element_size()
    whole = is_aligned(min(PACK, power_of_two(out.shape[1]) * itemsize), out, *inputs)
    return tile_of(out.shape[1], itemsize, len(inputs), whole)


def tile_of(columns: int, itemsize: int, inputs: int, whole: bool) -> RowTile:
    """The tile for rows of ``columns``, ``whole`` vectors. Powers of two limit the number of compiled kernels."""
    padded = power_of_two(columns)
    bytes = min(PACK, padded * itemsize)
    vectors = padded * itemsize // bytes
    if vectors <= 4 and not whole:  # scalar accesses: fewer elements each, for up to four threads
        threads = min(4, padded)
        return RowTile(threads, 1, False, padded // threads * itemsize)
    # One vector per thread while a row fits in a warp, then two or four, and more only if 1024 threads are too few.
    wanted = 4 if inputs == 1 else 2
    threads = min(1024, max(min(WARP, vectors), vectors // wanted))
    return RowTile(threads, max(1, vectors // threads), whole, bytes)


def per_thread(kernel: str, file: Path) -> Launch:
    """A thread computes a row."""
    module = cuda.load(file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        # Blocks of 64 threads: 16384 rows then occupy all 132 SMs.
        module[f"{kernel}<{cuda.ctype(out.dtype)}>"][cdiv(rows, 64), 64](*inputs, cuda.out(out), rows, columns)

    return along_rows(launch)


def per_block(kernel: str, file: Path) -> Launch:
    """A block computes a row."""
    module = cuda.load(file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        module[f"{kernel}<{cuda.ctype(out.dtype)}>"][rows, BLOCK](*inputs, cuda.out(out), columns)

    return along_rows(launch)


def in_registers(kernel: str, file: Path) -> Launch:
    """A block, or up to a warp of it, holds a row in registers."""
    module = cuda.load(file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        threads, vectors, whole, bytes = row_tile(out, *inputs)
        width = "" if bytes == 16 else f", {bytes}"
        name = f"{kernel}<{cuda.ctype(out.dtype)}, {threads}, {vectors}, {str(whole).lower()}{width}>"
        together = _rows_of_block(rows, threads, sm_count(out))
        module[name][cdiv(rows, together), (threads, together)](*inputs, cuda.out(out), rows, columns)

    return along_rows(launch)


def _rows_of_block(rows: int, threads: int, sms: int) -> int:
    """Rows that a block of ``in_registers`` computes, up to ``block_of_teams``.

    The GPU starts a block every 1.5 ns: 130571 rows of a thread each take 1.75 µs in blocks of 128 threads, 1.2 in
    blocks of 256; 1000000 rows take 5.5 µs in blocks of 256, 3.3 in blocks of 512.
    """
    if threads > WARP:
        return 1
    if threads > 1:
        return TEAMS_BLOCK // threads
    smaller, larger = SINGLE_BLOCKS
    return smaller if rows <= MOST_SINGLE * sms * smaller else larger


def long_rows(kernel: str, file: Path) -> Launch:
    """A block of 1024 threads reads a row twice."""
    module = cuda.load(file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        whole = str(is_aligned(16, out, *inputs)).lower()
        name = f"{kernel}<{cuda.ctype(out.dtype)}, {whole}>"
        module[name][rows, LONG_BLOCK](*inputs, cuda.out(out), columns)

    return along_rows(launch)


def short_rows(kernel: str, file: Path) -> Launch:
    """A warp moves its rows as one range of packs."""
    module = cuda.load(file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        shape = team(columns, out.element_size(), SHORT_VALUES)
        name = f"{kernel}<{cuda.ctype(out.dtype)}, {shape.lanes}, {shape.values}>"
        module[name][shape.grid(rows), (WARP, WARPS)](*aligned(inputs), cuda.out(out), rows, columns)

    return along_rows(launch)


def short_limits(*args: Any) -> str | None:
    """The limit of ``short_rows``."""
    length, most = length_along(args[0], args[-1]), most_columns(args[0].element_size())
    return f"takes rows of up to {most} elements, not {length}" if length > most else None


def is_short(out: torch.Tensor, length: int) -> bool:
    """True if ``short_rows`` is faster than ``in_registers``, as measured: not for small tensors.

    The GPU starts a block of ``in_registers`` every 1.5 ns, so that many of them take longer than their accesses. A row
    of 1, 2, 4, 8 or 16 bytes is one access of a thread in both.
    """
    size = out.element_size()
    if not 0 < length <= most_columns(size) or power_of_two(length) == length <= PACK // size:
        return False
    lanes = tile_of(length, size, 1, length * size % PACK == 0).threads
    blocks = cdiv(out.numel() // length * lanes, 4 * WARP)
    return out.numel() >= SHORT_ELEMENTS or blocks > SHORT_BLOCKS * sm_count(out)


def split_rows(kernel: str, file: Path, values: int) -> Launch:
    """Several blocks compute a row: ``values`` float32 of each part of a row are between two launches."""
    module = cuda.load(file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        step = BLOCK * PACK // out.element_size()
        parts = min(cdiv(columns, FEWEST_STEPS * step), cdiv(BLOCKS_AN_SM * sm_count(out), rows))
        share = cdiv(cdiv(columns, parts), step) * step
        parts = cdiv(columns, share)
        partial = out.new_empty((rows, parts, values), dtype=torch.float32)
        options, grid = f"<{cuda.ctype(out.dtype)}, {str(is_aligned(PACK, out, *inputs)).lower()}>", (parts, rows)
        module[f"{kernel}_parts{options}"][grid, BLOCK](*inputs, cuda.out(partial), columns, share)
        module[f"{kernel}_from_parts{options}"][grid, BLOCK](*inputs, partial, cuda.out(out), columns, share)

    return along_rows(launch)


def _at_most(columns: int, why: str, rows: int) -> Callable[..., str | None]:
    """The limits of a rung: rows of up to ``columns`` elements, and up to ``rows`` rows, the blocks of a grid."""

    def limits(*args: Any) -> str | None:
        tensor, length = args[0], length_along(args[0], args[-1])
        if length > columns:
            return f"takes rows of up to {columns} elements ({why}), not {length}"
        if length and tensor.numel() // length > rows:
            return f"takes up to {rows} rows, one block each, not {tensor.numel() // length}"
        return None

    return limits


def rung(
    folder: Path,
    name: str,
    idea: str,
    launch: Launch,
    columns: int = MAX_COLUMNS,
    why: str = "an index is 32 bits",
    rows: int = MAX_ROWS,
) -> Rung:
    return make_rung(folder, name, idea, launch, dtypes=KERNEL_DTYPES, limits=_at_most(columns, why, rows))
