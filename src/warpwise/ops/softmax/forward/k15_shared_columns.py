"""The launcher of k15_shared_columns, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.device.limits import HOPPER_SHARED, RESERVED, SM_SHARED, requires_ampere, shared_bytes
from warpwise.device.target import power_of_two
from warpwise.operation import cdiv
from warpwise.ops._configs import config_numbers
from warpwise.ops._dims import inner_size, length_along
from warpwise.ops.softmax._launch import aligned

SHARED_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"b(\d+)_t(\d+)")  # bytes of a row of a tile, threads
WARP = 32  # lanes of a warp
PACK = 16  # bytes of an access
SECTOR = 32  # bytes of a sector
BYTES = (256, 128, 64)  # of a row of a tile
MOST_THREADS, FEWEST_THREADS = 1024, 256
WIDE = 128  # bytes of an unaligned row of a tile, at least, where an SM has two: else other rungs are faster


def shared_columns(out: torch.Tensor, input: torch.Tensor, dim: int, config: str | None = None) -> None:
    bytes, threads = config_numbers("softmax", config or configs(input, dim)[0], FORM)
    length, inner, size = length_along(out, dim), inner_size(out, dim), out.element_size()
    width = bytes // size if inner * size % PACK == 0 else bytes // size - PACK // size + 1
    tiles, lanes = cdiv(inner, width), min(bytes // size, WARP)
    grid, block = out.numel() // (length * inner) * tiles, (lanes, threads // lanes)
    kernel = SHARED_COLUMNS[f"softmax_shared_columns<{cuda.ctype(out.dtype)}, {bytes}, {threads}>"]
    launch = kernel[grid, block, length * bytes]
    launch(*aligned((input,)), cuda.out(out), out.numel(), inner, length, width, tiles)


def configs(input: torch.Tensor, dim: int) -> tuple[str, ...]:
    """The widest tile of which an SM holds two, but at most 128 bytes of aligned rows; then the other ones."""
    most, size, length = shared_bytes(input) or HOPPER_SHARED, input.element_size(), length_along(input, dim)
    # The columns, and two values of each column of each line of threads.
    each = {bytes: (length + 2 * MOST_THREADS // WARP * 4 // size) * bytes for bytes in BYTES}
    blocks = {bytes: SM_SHARED // (shared + RESERVED) for bytes, shared in each.items() if shared <= most}
    widest = BYTES[0] if inner_size(input, dim) * size % PACK else WIDE
    order = sorted(blocks, key=lambda bytes: (blocks[bytes] < 2, bytes > widest, -bytes))
    threads = {bytes: max(FEWEST_THREADS, MOST_THREADS * 2 // power_of_two(blocks[bytes] + 1)) for bytes in order}
    return tuple(f"b{bytes}_t{threads[bytes]}" for bytes in order)


def limits(input: torch.Tensor, dim: int) -> str | None:
    length, inner = length_along(input, dim), inner_size(input, dim)
    if input.numel() and inner * input.element_size() < PACK:
        return f"takes at least {PACK} bytes of neighbouring columns, not {inner} columns"
    if not configs(input, dim):
        return f"takes columns of which {BYTES[-1]} bytes of each row fit in shared memory, not {length} elements"
    return requires_ampere(input)


def is_wide(input: torch.Tensor, dim: int) -> bool:
    """True if an SM holds two tiles of 128 bytes, or of 64 if all rows begin with a sector: none is in two tiles."""
    if limits(input, dim) is not None:
        return False
    bytes, threads = config_numbers("softmax", configs(input, dim)[0], FORM)
    return threads < MOST_THREADS and (bytes >= WIDE or inner_size(input, dim) * input.element_size() % SECTOR == 0)
