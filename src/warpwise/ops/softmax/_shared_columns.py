"""The launchers of k15_shared_columns and of the backward's k13_shared_columns, and their configurations."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.device.limits import HOPPER_SHARED, RESERVED, SM_SHARED, requires_ampere, shared_bytes
from warpwise.device.target import power_of_two
from warpwise.operation import cdiv
from warpwise.ops._dims import inner_size, length_along
from warpwise.ops.softmax._launch import aligned

FORM = re.compile(r"b(\d+)_t(\d+)")  # bytes of a row of a tile, threads
WARP, PACK = 32, 16  # lanes; bytes
BYTES = (256, 128, 64)  # of a row of a tile
MOST_THREADS, FEWEST_THREADS = 1024, 256


def shared_of(length: int, bytes: int, itemsize: int, tensors: int) -> int:
    """Shared memory of a block: the tiles, and two values of each column of each line of threads."""
    return (length * tensors + 2 * MOST_THREADS // WARP * 4 // itemsize) * bytes


def configs(*args: Any) -> tuple[str, ...]:
    """Rows of 256 bytes if an SM holds two such tiles, else of 128; then the other ones that fit."""
    *tensors, dim = args
    most, size = shared_bytes(tensors[0]) or HOPPER_SHARED, tensors[0].element_size()
    each = {bytes: shared_of(length_along(tensors[0], dim), bytes, size, len(tensors)) for bytes in BYTES}
    blocks = {bytes: SM_SHARED // (shared + RESERVED) for bytes, shared in each.items() if shared <= most}
    order = sorted(blocks, key=lambda bytes: (bytes == BYTES[0] and blocks[bytes] < 2, -bytes))
    threads = {bytes: max(FEWEST_THREADS, MOST_THREADS * 2 // power_of_two(blocks[bytes] + 1)) for bytes in order}
    return tuple(f"b{bytes}_t{threads[bytes]}" for bytes in order)


def limits(*args: Any) -> str | None:
    *tensors, dim = args
    length, inner = length_along(tensors[0], dim), inner_size(tensors[0], dim)
    if tensors[0].numel() and inner * tensors[0].element_size() < PACK:
        return f"takes at least {PACK} bytes of neighbouring columns, not {inner} columns"
    if not configs(*args):
        return f"takes columns of which {BYTES[-1]} bytes of neighbours fit in shared memory, not {length} elements"
    return requires_ampere(tensors[0])


def shared_columns(kernel: str, file: Path) -> Callable[..., None]:
    """A block computes a tile of whole columns in shared memory."""
    module = cuda.load(file)

    def fill(out: torch.Tensor, *args: Any, config: str | None = None) -> None:
        *inputs, dim = args
        found = FORM.fullmatch(config or configs(*args)[0])
        if found is None:
            raise ValueError(f"softmax: expected a configuration of the form {FORM.pattern}, got {config!r}")
        bytes, threads = map(int, found.groups())
        length, inner, size = length_along(out, dim), inner_size(out, dim), out.element_size()
        width = bytes // size if inner * size % PACK == 0 else bytes // size - PACK // size + 1
        tiles, lanes = cdiv(inner, width), min(bytes // size, WARP)
        name = f"{kernel}<{cuda.ctype(out.dtype)}, {bytes}, {threads}>"
        grid, block = out.numel() // (length * inner) * tiles, (lanes, threads // lanes)
        launch = module[name][grid, block, length * bytes * len(inputs)]
        launch(*aligned(inputs), cuda.out(out), out.numel(), inner, length, width, tiles)

    return fill
