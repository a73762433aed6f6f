"""The ladder of cross_entropy, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.operation import Rung, cdiv, lazy_launch, make_rung
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops.cross_entropy.spec import DTYPES, SPEC, Two

HERE = Path(__file__).parent
THREADS, MOST_BLOCKS = 256, 1024
MOST_CLASSES = 4096  # of the default
FEW_PASSES = 4  # most passes in which one block reads all rows: it needs no partial sums and no semaphore
MOST_ROWS = 2**24  # counts are summed in float32, exactly
THREAD_PER_ROW = cuda.load(HERE / "k01_thread_per_row.cu")
LANES_PER_ROW = cuda.load(HERE / "k03_lanes_per_row.cu")
IN_C = function(HERE / "k02_c.c", "cross_entropy", "pppplll")


def limits(input: torch.Tensor, *rest: object) -> str | None:
    return f"takes up to {MOST_ROWS} rows, not {input.shape[0]}" if input.shape[0] > MOST_ROWS else None


def lanes(classes: int) -> int:
    """Lanes of a row: 4 for few classes, a warp for others."""
    return 4 if classes <= 16 else 32


def thread_per_row(outputs: Two, input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> None:
    loss, count = outputs
    rows, classes = input.shape
    losses = input.new_empty(rows)
    if rows:
        grid = cdiv(rows, THREADS), THREADS
        THREAD_PER_ROW["row_losses"][grid](input, target, cuda.out(losses), rows, classes, ignore_index)
    THREAD_PER_ROW["mean_of_losses"][1, 1](losses, target, cuda.out(loss), cuda.out(count), rows, ignore_index)


def in_c(outputs: Two, input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> None:
    IN_C(input, target, *outputs, *input.shape, ignore_index)


def lanes_per_row(outputs: Two, input: torch.Tensor, target: torch.Tensor, ignore_index: int) -> None:
    loss, count = outputs
    rows, classes = input.shape
    width = lanes(classes)
    passes = cdiv(rows, THREADS // width)
    blocks = 1 if passes <= FEW_PASSES else min(MOST_BLOCKS, passes)
    several = blocks > 1
    sums = input.new_empty((2, blocks)) if several else (None, None)
    LANES_PER_ROW[f"cross_entropy<{width}>"][blocks, THREADS](
        *(input, target, sums[0], sums[1], semaphores(input, 1) if several else None),
        *(cuda.out(loss), cuda.out(count), rows, classes, ignore_index),
    )


triton = lazy_launch(f"{__package__}.k04_triton")


RUNGS = (
    make_rung(HERE, "k01_thread_per_row", "one thread per row, then one thread for the mean", thread_per_row,
              dtypes=DTYPES, limits=limits),
    Rung("k02_c", "the definition in C", "c", in_c, HERE / "k02_c.c", dtypes=DTYPES, devices=("cpu",)),
    make_rung(HERE, "k03_lanes_per_row", "lanes along classes, maximum and sum in one pass, one launch",
              lanes_per_row, dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k04_triton", "a tile of rows and classes per program in Triton", triton, dtypes=DTYPES,
              limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k03 up to 4096 classes; PyTorch for longer rows, for which no rung is timed."""
    return first_taking(SPEC, RUNGS, args, "k03_lanes_per_row") if args[0].shape[1] <= MOST_CLASSES else None
