"""The two ladders of softmax, forward and backward, slowest idea first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, make_rung
from warpwise.ops._dims import is_last, length_along
from warpwise.ops.softmax.spec import KERNEL_DTYPES
from warpwise.registry import Rung

HERE = Path(__file__).parent
BLOCK = 256  # kThreads of the kernels with one block a row
WARP = 32
LONG_BLOCK = 1024  # kThreads of the kernels for long rows
LONGEST, MOST_ROWS = 2**30, 2**31 - 1  # a column's index is an int; a grid has at most 2**31 - 1 blocks in x
REGISTER_COLUMNS, BACKWARD_REGISTER_COLUMNS = 32768, 16384
TRITON_COLUMNS = 65536

Launch = Callable[..., None]


def along_rows(launch: Launch) -> Launch:
    """``launch(out, *inputs)`` on (rows, columns), for any shape: a ``dim`` that is not the last is copied there."""

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


def aligned(*tensors: torch.Tensor) -> str:
    """Whether every row of every tensor starts on 16 bytes and is whole vectors, as a template argument."""
    whole = all(value.data_ptr() % 16 == 0 and value.shape[1] * value.element_size() % 16 == 0 for value in tensors)
    return "true" if whole else "false"


def per_thread(kernel: str, file: str) -> Launch:
    module = cuda.load(HERE / file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        # Few threads a block, so that 16384 rows reach all 132 SMs.
        module[f"{kernel}<{cuda.ctype(out.dtype)}>"][cdiv(rows, 64), 64](*inputs, cuda.out(out), rows, columns)

    return along_rows(launch)


def per_block(kernel: str, file: str) -> Launch:
    module = cuda.load(HERE / file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        module[f"{kernel}<{cuda.ctype(out.dtype)}>"][rows, BLOCK](*inputs, cuda.out(out), columns)

    return along_rows(launch)


def in_registers(kernel: str, file: str) -> Launch:
    module = cuda.load(HERE / file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        # One 16-byte vector a thread while a row fits a warp, then two or four, more only when 1024 threads do not
        # suffice. Powers of two keep the number of kernels that are ever compiled small.
        wanted = 4 if len(inputs) == 1 else 2
        vectors = power_of_two(cdiv(columns * out.element_size(), 16))
        threads = min(1024, max(4, min(WARP, vectors), vectors // wanted))
        each = max(1, vectors // threads)
        name = f"{kernel}<{cuda.ctype(out.dtype)}, {threads}, {each}, {aligned(out, *inputs)}>"
        together = 4 * WARP // threads if threads <= WARP else 1  # block_of_teams
        module[name][cdiv(rows, together), (threads, together)](*inputs, cuda.out(out), rows, columns)

    return along_rows(launch)


def long_rows(kernel: str, file: str) -> Launch:
    module = cuda.load(HERE / file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        rows, columns = out.shape
        name = f"{kernel}<{cuda.ctype(out.dtype)}, {aligned(out, *inputs)}>"
        module[name][rows, LONG_BLOCK](*inputs, cuda.out(out), columns)

    return along_rows(launch)


def triton_row(out: torch.Tensor, x: torch.Tensor) -> None:
    from warpwise.ops.softmax.k07_triton_row import softmax_row

    rows, columns = out.shape
    block = power_of_two(columns)
    softmax_row[(rows,)](x, out, columns, BLOCK=block, num_warps=triton_warps(block))


def triton_online(out: torch.Tensor, x: torch.Tensor) -> None:
    from warpwise.ops.softmax.k08_triton_online import softmax_online

    rows, columns = out.shape
    block = min(8192, power_of_two(columns))
    softmax_online[(rows,)](x, out, columns, BLOCK=block, num_warps=triton_warps(block))


def triton_backward_row(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor) -> None:
    from warpwise.ops.softmax.k05_backward_triton_row import softmax_backward_row

    rows, columns = out.shape
    block = power_of_two(columns)
    softmax_backward_row[(rows,)](gradient, y, out, columns, BLOCK=block, num_warps=triton_warps(block))


def triton_backward_loop(out: torch.Tensor, gradient: torch.Tensor, y: torch.Tensor) -> None:
    from warpwise.ops.softmax.k06_backward_triton_loop import softmax_backward_loop

    rows, columns = out.shape
    block = min(8192, power_of_two(columns))
    softmax_backward_loop[(rows,)](gradient, y, out, columns, BLOCK=block, num_warps=triton_warps(block))


def triton_warps(block: int) -> int:
    """Warps a program: 32 elements a thread up to 32 warps, the most that a block has."""
    return min(32, max(1, block // 1024))


def at_most(columns: int, why: str) -> Callable[..., str | None]:
    """A rung's limits: rows of up to ``columns`` elements, and fewer rows than a grid has blocks."""

    def limits(*args: Any) -> str | None:
        tensor, length = args[0], length_along(args[0], args[-1])
        if length > columns:
            return f"takes rows of up to {columns} elements ({why}), not {length}"
        if length and tensor.numel() // length > MOST_ROWS:
            return f"takes up to {MOST_ROWS} rows, one block each, not {tensor.numel() // length}"
        return None

    return limits


def rung(name: str, idea: str, launch: Launch, columns: int = LONGEST, why: str = "an index is 32 bits") -> Rung:
    return make_rung(HERE, name, idea, launch, dtypes=KERNEL_DTYPES, limits=at_most(columns, why))


RUNGS = (
    rung("k01_thread_per_row", "one thread a row", per_thread("softmax_thread_per_row", "k01_thread_per_row.cu")),
    rung("k02_block_per_row", "one block a row, tree in shared memory",
         per_block("softmax_block_per_row", "k02_block_per_row.cu")),
    rung("k03_warp_shuffle", "reductions by warp shuffles", per_block("softmax_warp_shuffle", "k03_warp_shuffle.cu")),
    rung("k04_online", "maximum and sum in one pass", per_block("softmax_online", "k04_online.cu")),
    rung("k05_row_in_registers", "16-byte loads, the row read once and kept",
         in_registers("softmax_row_in_registers", "k05_row_in_registers.cu"), 
         REGISTER_COLUMNS, "1024 threads hold 32 each"),
    rung("k06_long_rows", "online over 16-byte loads, read again from L2",
         long_rows("softmax_long_rows", "k06_long_rows.cu")),
    rung("k07_triton_row", "the row in one Triton block", along_rows(triton_row),
         TRITON_COLUMNS, "a larger block spills"),
    rung("k08_triton_online", "online in Triton, any length", along_rows(triton_online)),
)  # fmt: skip

BACKWARD_RUNGS = (
    rung("k01_backward_thread_per_row", "one thread a row",
         per_thread("softmax_backward_thread_per_row", "k01_backward_thread_per_row.cu")),
    rung("k02_backward_warp_shuffle", "one block a row, warp shuffles",
         per_block("softmax_backward_warp_shuffle", "k02_backward_warp_shuffle.cu")),
    rung("k03_backward_row_in_registers", "16-byte loads, both rows read once and kept",
         in_registers("softmax_backward_row_in_registers", "k03_backward_row_in_registers.cu"),
         BACKWARD_REGISTER_COLUMNS, "1024 threads hold 16 of each input"),
    rung("k04_backward_long_rows", "16-byte loads, read again from L2",
         long_rows("softmax_backward_long_rows", "k04_backward_long_rows.cu")),
    rung("k05_backward_triton_row", "both rows in one Triton block", along_rows(triton_backward_row),
         TRITON_COLUMNS // 2, "a larger block spills"),
    rung("k06_backward_triton_loop", "a loop in Triton, any length", along_rows(triton_backward_loop)),
)  # fmt: skip


def default(input: torch.Tensor, dim: int) -> str | None:
    """Registers while the row fits, two passes beyond; PyTorch where no rung goes."""
    choice = RUNGS[4] if length_along(input, dim) <= REGISTER_COLUMNS else RUNGS[5]
    return None if input.dtype not in KERNEL_DTYPES or choice.limits(input, dim) else choice.name


def default_backward(grad_output: torch.Tensor, output: torch.Tensor, dim: int) -> str | None:
    """Registers while both rows fit, two passes beyond; PyTorch where no rung goes."""
    choice = BACKWARD_RUNGS[2] if length_along(output, dim) <= BACKWARD_REGISTER_COLUMNS else BACKWARD_RUNGS[3]
    return None if output.dtype not in KERNEL_DTYPES or choice.limits(grad_output, output, dim) else choice.name
