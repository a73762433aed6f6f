"""Launchers for products of few rows or few tiles: what fills the GPU is a division of K."""

from __future__ import annotations

import re

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops._tickets import tickets
from warpwise.ops.matmul._shared import HERE, sizes, too_large
from warpwise.ops.matmul._tiles import BOX, ROOM, Tiles, ranked

STREAM_K = cuda.load(HERE / "k18_stream_k.cu")
SKINNY = cuda.load(HERE / "k19_skinny.cu")
ROWS = (8, 16, 32, 64, 128, 256)  # of a tile of k18
STREAM_K_TILES = re.compile(r"(\d+)x(\d+)x(\d+)_s(\d+)")
SPLIT_K = re.compile(r"(\d+)x(\d+)x(\d+)_w(\d+)_s(\d+)_p(\d+)")  # block, warps, stages, parts of K


def numbers(config: str, form: re.Pattern[str]) -> tuple[int, ...]:
    """The numbers in a configuration's name. Raises ``ValueError`` for a name of another form."""
    found = form.fullmatch(config)
    if not found:
        raise ValueError(f"matmul: expected a configuration of the form {form.pattern}, got {config!r}")
    return tuple(map(int, found.groups()))


def addressable(matrix: torch.Tensor) -> torch.Tensor | None:
    """``matrix`` with rows that the copy engine can address where they lie, or None: each begins on 16 bytes."""
    rows, columns = matrix.shape
    if (matrix.stride(1) != 1 and columns > 1) or matrix.data_ptr() % 16:
        return None
    pitch = matrix.stride(0) if rows > 1 else cdiv(columns, 8) * 8
    if pitch % 8 or pitch < columns:
        return None
    return matrix.as_strided((rows, columns), (pitch, 1))


def copied(matrix: torch.Tensor) -> torch.Tensor:
    """A row-major copy in memory of its own: ``contiguous`` would hand back a matrix that begins between 16 bytes."""
    return matrix.clone(memory_format=torch.contiguous_format)


def lying(matrix: torch.Tensor) -> tuple[torch.Tensor, bool] | None:
    """``matrix`` or its transpose as the copy engine can address it where it lies, and whether that is the transpose; or None."""
    for turned, way in ((False, matrix), (True, matrix.t())):
        if (rows := addressable(way)) is not None:
            return rows, turned
    return None


def laid_out(matrix: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """What the copy engine is to read ``matrix`` from, and whether that is its transpose: copied only if it can read neither."""
    return lying(matrix) or (copied(matrix), False)


def mapped(
    a: torch.Tensor, b: torch.Tensor, box: tuple[int, int], share: int = 1
) -> tuple[tuple[cuda.TensorMap, cuda.TensorMap], bool]:
    """Tensor maps of a, in boxes of ``box[0]`` rows, and of b, in boxes of ``box[1]`` columns where it is k-major; is it?

    ``share``: a box of b holds so small a share of its rows. L2 fetches 256 bytes at a time, but not where many rows of a
    ask for b and rows do not begin on them: 64, which took 6 % less time at 1000 x 3000 x 776.
    """
    rows = addressable(a)
    read, by_columns = laid_out(b)
    read_a = copied(a) if rows is None else rows
    ragged = a.shape[0] > 256 and any(matrix.stride(0) % (2 * BOX) for matrix in (read_a, read))
    promotion = 64 if ragged else 256
    of_a = cuda.tensor_map(read_a, (box[0], BOX), promotion=promotion)
    of_b = cuda.tensor_map(read, ((box[1] if by_columns else BOX) // share, BOX), promotion=promotion)
    return (of_a, of_b), by_columns


def skinny_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    if reason := not_hopper(a):
        return reason
    _, n, k = sizes(a, b)
    if addressable(a) is None and k % 8:
        return f"takes an a whose rows begin on 16 bytes, not k = {k} with strides {a.stride()}"
    if lying(b) is None and n % 8:
        return f"takes a b whose rows or columns begin on 16 bytes, not n = {n} with strides {b.stride()}"
    return too_large(a, b)


def tiles_for(m: int, n: int, k: int, processors: int) -> Tiles:
    """The configuration that k19 takes by itself: see the README for what each choice was worth."""
    return ranked(m, n, k, processors)[0]


def skinny_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Its own choice, then those that are estimated to come next, for a table to be made of."""
    return tuple(map(str, ranked(*sizes(a, b), multiprocessors(a))[:12]))


def skinny_kernel(a: torch.Tensor, tiles: Tiles, by_columns: bool) -> str:
    order, apart = (str(value).lower() for value in (by_columns, tiles.apart))
    shared = "b" if tiles.down > 1 else "a" if tiles.across > 1 else "nothing"
    return (
        f"matmul_skinny{'_alone' if tiles.split * tiles.pair == 1 else ''}<{cuda.ctype(a.dtype)}, {tiles.columns // 64}, {tiles.rows}, "
        f"{order}, {tiles.depth}, {tiles.stages}, {tiles.split}, {apart}, Shared::{shared}>"
    )


def skinny(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tiles = Tiles.named(config) if config else tiles_for(m, n, k, multiprocessors(a))
    maps, by_columns = mapped(a, b, (tiles.rows // tiles.across, tiles.columns), tiles.down)
    tiles_m, across = cdiv(m, tiles.rows * tiles.down), cdiv(n, tiles.columns * tiles.across)
    blocks = tiles_m * across * tiles.pair
    grid = blocks * tiles.outer * tiles.split, 2 * tiles.columns + 32, tiles.shared_bytes
    boxes = n % 8 == 0 and c.data_ptr() % 16 == 0
    of_c = cuda.tensor_map(c, (tiles.rows // tiles.finish, BOX)) if boxes else maps[0]
    many = tiles.outer > 1
    parts = c.new_empty(blocks * tiles.outer * tiles.columns * tiles.rows, dtype=torch.float32) if many else None
    counters = tickets(a, blocks * tiles.finish) if many else None
    SKINNY[skinny_kernel(a, tiles, by_columns)][grid](
        *maps, of_c, cuda.out(c), parts, counters, boxes, m, n, k, tiles_m, tiles.outer
    )


def split_k(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    from warpwise.ops.matmul.k17_split_k import matmul_split_k, sum_of_parts

    m, n, k = sizes(a, b)
    block_m, block_n, block_k, warps, stages, parts = numbers(config or split_k_configs(a, b)[0], SPLIT_K)
    sums = c if parts == 1 else c.new_empty((parts, m, n), dtype=torch.float32)
    matmul_split_k[(cdiv(m, block_m) * cdiv(n, block_n) * parts,)](
        a, b, sums, m, n, k, *a.stride(), *b.stride(), parts,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    if parts > 1:
        sum_of_parts[(cdiv(m * n, 1024),)](sums, c, m * n, parts, BLOCK=1024, num_warps=4)


def split_k_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Tiles by the dtype and the rows of A, and parts of K so that some four warps' programs come to each SM."""
    m, n, k = sizes(a, b)
    short = a.dtype != torch.float32
    block_m = next((size for size in (16, 32, 64) if size >= m), 64)
    names = []
    for block_n, block_k, warps, stages in (
        ((64, 128, 4, 4), (128, 64, 4, 4)) if short else ((64, 32, 4, 4), (128, 32, 4, 3))
    ):
        tiles, slices = cdiv(m, block_m) * cdiv(n, block_n), cdiv(k, block_k)
        fill = cdiv(2 * multiprocessors(a), max(1, tiles))
        for parts in dict.fromkeys((fill, cdiv(fill, 2), 2 * fill, 1)):
            names.append(f"{block_m}x{block_n}x{block_k}_w{warps}_s{stages}_p{max(1, min(parts, slices // 2))}")
    return tuple(dict.fromkeys(names))


def stream_k_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    m, _, _ = sizes(a, b)
    rows = next((width for width in ROWS if width >= m), ROWS[-1])
    widths = dict.fromkeys((rows, max(8, rows // 2), max(8, rows // 4)))
    each = {width: (ROOM - 2048 - min(width, 32) * 132 * 4) // ((128 + width) * 2 * BOX) for width in widths}
    return tuple(f"128x{width}x{BOX}_s{min(12, each[width])}" for width in widths)


def stream_k_kernel(a: torch.Tensor, config: str, by_columns: bool) -> str:
    columns, rows, depth, stages = numbers(config, STREAM_K_TILES)
    order = str(by_columns).lower()
    return f"matmul_stream_k<{cuda.ctype(a.dtype)}, {columns // 64}, {rows}, {order}, {depth}, {stages}>"


def stream_k(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    config = config or stream_k_configs(a, b)[0]
    columns, rows, depth, stages = numbers(config, STREAM_K_TILES)
    maps, by_columns = mapped(a, b, (rows, columns))
    tiles_m, tiles = cdiv(m, rows), cdiv(m, rows) * cdiv(n, columns)
    blocks = min(multiprocessors(a), tiles * cdiv(k, depth))
    partials = c.new_empty(2 * blocks * columns * rows, dtype=torch.float32)
    shared = 1024 + stages * (columns + rows) * 2 * depth + min(rows, 32) * (columns + 4) * 4
    kernel = STREAM_K[stream_k_kernel(a, config, by_columns)]
    kernel[blocks, 2 * columns + 32, shared](*maps, c, partials, tickets(a, tiles), m, n, k, tiles_m, tiles)
