"""The ladder of reduce_sum, slowest idea first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops._dims import is_last, length_along
from warpwise.ops.reduce_sum.spec import KERNEL_DTYPES

HERE = Path(__file__).parent
BLOCK = 256  # kThreads of the kernels
WARP, ROWS_OF_WARPS = 32, 4
BLOCKS_AN_SM = 8  # of 256 threads: the 2048 threads of an SM
MOST_BLOCKS = 2**31 - 1

Launch = Callable[..., None]


def over_rows(launch: Launch) -> Launch:
    """``launch(sums, x)`` on x (rows, columns), for any shape; for another ``dim`` than the last, x is a copy."""

    def launch_over(output: torch.Tensor, input: torch.Tensor, dim: int | None) -> None:
        if dim is not None and not is_last(input, dim):
            input, dim = input.movedim(dim, -1).contiguous(), -1
        columns = input.numel() if dim is None else length_along(input, dim)
        launch(output.view(-1), input.view(output.numel(), columns))

    return launch_over


def parts_of(x: torch.Tensor, each: int) -> int:
    """Blocks a row: at least ``each`` elements a block, and about as many blocks as are resident on the GPU."""
    rows, columns = x.shape
    return max(1, min(BLOCKS_AN_SM * sm_count(x) // rows, cdiv(columns, each)))


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
    short = parts == 1 and columns * x.element_size() <= 4 * 16 * WARP  # four 16-byte loads a lane
    threads, together = (WARP, ROWS_OF_WARPS) if short else (BLOCK, 1)
    kernel = TWO_PASSES[f"sum_two_passes<{cuda.ctype(x.dtype)}, {cuda.ctype(sums.dtype)}, {threads}>"]
    kernel[cdiv(rows, together) * parts, (threads, together)](x, cuda.out(sums), rows, columns, parts)


@over_rows
def two_passes(sums: torch.Tensor, x: torch.Tensor) -> None:
    parts = parts_of(x, each=4 * BLOCK * 16 // x.element_size())
    if parts == 1:
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


def limits(input: torch.Tensor, dim: int | None) -> str | None:
    """The first rungs launch a block for every 256 elements of a row, so the size of a grid limits both counts."""
    columns = max(1, input.numel() if dim is None else length_along(input, dim))
    blocks = input.numel() // columns * cdiv(columns, BLOCK)
    return (
        f"takes up to {MOST_BLOCKS} blocks of {BLOCK} elements of a row, not {blocks}" if blocks > MOST_BLOCKS else None
    )


def rung(name: str, idea: str, launch: Launch, deterministic: bool = False) -> Rung:
    return make_rung(HERE, name, idea, launch, dtypes=KERNEL_DTYPES, limits=limits, deterministic=deterministic)


RUNGS = (
    rung("k01_atomic_per_element", "one atomic an element", atomic_per_element),
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
        "many elements a thread added before the tree",
        resident_grid("sum_add_during_load", "k04_add_during_load.cu"),
    ),
    rung("k05_warp_shuffle", "the tree by warp shuffles", resident_grid("sum_warp_shuffle", "k05_warp_shuffle.cu")),
    rung("k06_two_passes", "16-byte loads, partial sums in a fixed order", two_passes, deterministic=True),
    rung("k07_triton_two_passes", "the same in Triton", triton_two_passes, deterministic=True),
)


def default(input: torch.Tensor, dim: int | None) -> str | None:
    return None if input.dtype not in KERNEL_DTYPES or limits(input, dim) else "k06_two_passes"
