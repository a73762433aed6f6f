"""Launchers that the ladders of softmax and softmax_backward share. A launcher fills ``out`` from one or two inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import Rung, cdiv, make_rung
from warpwise.ops._dims import is_last, length_along
from warpwise.ops.softmax.spec import KERNEL_DTYPES

BLOCK = 256  # kThreads of the kernels with one block a row
WARP = 32
LONG_BLOCK = 1024  # kThreads of the kernels for long rows
MAX_COLUMNS, MAX_ROWS = 2**30, 2**31 - 1  # a column index is an int; a grid has at most 2**31 - 1 blocks in x

Launch = Callable[..., None]


def along_rows(launch: Launch) -> Launch:
    """``launch(out, *inputs)`` on (rows, columns), for any shape; for another ``dim`` than the last, on copies."""

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


def power_of_two(count: int) -> int:
    """The smallest power of two that is at least ``count``."""
    return 1 << (count - 1).bit_length()


def triton_warps(block: int) -> int:
    """Warps of a program: 32 elements a thread, up to 32 warps, the largest block."""
    return min(32, max(1, block // 1024))


def aligned(*tensors: torch.Tensor) -> str:
    """Whether every row of every tensor is a multiple of 16 bytes and 16-byte aligned, as a template argument."""
    whole = all(value.data_ptr() % 16 == 0 and value.shape[1] * value.element_size() % 16 == 0 for value in tensors)
    return "true" if whole else "false"


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
        # One 16-byte vector a thread while a row fits a warp, then two or four, more only where 1024 threads hold too
        # little. Powers of two bound the number of kernels that are compiled.
        wanted = 4 if len(inputs) == 1 else 2
        vectors = power_of_two(cdiv(columns * out.element_size(), 16))
        threads = min(1024, max(4, min(WARP, vectors), vectors // wanted))
        each = max(1, vectors // threads)
        name = f"{kernel}<{cuda.ctype(out.dtype)}, {threads}, {each}, {aligned(out, *inputs)}>"
        together = 4 * WARP // threads if threads <= WARP else 1  # block_of_teams
        module[name][cdiv(rows, together), (threads, together)](*inputs, cuda.out(out), rows, columns)

    return along_rows(launch)


def long_rows(kernel: str, file: Path) -> Launch:
    """A block of 1024 threads reads a row twice."""
    module = cuda.load(file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        name = f"{kernel}<{cuda.ctype(out.dtype)}, {aligned(out, *inputs)}>"
        module[name][rows, LONG_BLOCK](*inputs, cuda.out(out), columns)

    return along_rows(launch)


def _at_most(columns: int, why: str) -> Callable[..., str | None]:
    """The limits of a rung: rows of up to ``columns`` elements, and no more rows than a grid has blocks."""

    def limits(*args: Any) -> str | None:
        tensor, length = args[0], length_along(args[0], args[-1])
        if length > columns:
            return f"takes rows of up to {columns} elements ({why}), not {length}"
        if length and tensor.numel() // length > MAX_ROWS:
            return f"takes up to {MAX_ROWS} rows, one block each, not {tensor.numel() // length}"
        return None

    return limits


def rung(
    folder: Path, name: str, idea: str, launch: Launch, columns: int = MAX_COLUMNS, why: str = "an index is 32 bits"
) -> Rung:
    return make_rung(folder, name, idea, launch, dtypes=KERNEL_DTYPES, limits=_at_most(columns, why))
