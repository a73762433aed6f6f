"""Launchers for products of few rows or few tiles: what fills the GPU is a division of K."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops._tickets import tickets
from warpwise.ops.matmul._shared import HERE, sizes, too_large

STREAM_K = cuda.load(HERE / "k18_stream_k.cu")
SKINNY = cuda.load(HERE / "k19_skinny.cu")
DEPTH = 64
ROOM = 227 * 1024  # shared memory that a block may have on Hopper
WIDTHS = (8, 16, 32, 64, 128, 256)
TILES = re.compile(rf"(\d+)x(\d+)x{DEPTH}_s(\d+)_k(\d+)_c(\d+)_o(\d+)")
STREAM_K_TILES = re.compile(rf"(\d+)x(\d+)x{DEPTH}_s(\d+)")
SPLIT_K = re.compile(r"(\d+)x(\d+)x(\d+)_w(\d+)_s(\d+)_p(\d+)")  # block, warps, stages, parts of K


def numbers(config: str, form: re.Pattern[str]) -> tuple[int, ...]:
    """The numbers in a configuration's name. Raises ``ValueError`` for a name of another form."""
    found = form.fullmatch(config)
    if not found:
        raise ValueError(f"matmul: expected a configuration of the form {form.pattern}, got {config!r}")
    return tuple(map(int, found.groups()))


@dataclass(frozen=True)
class Tiles:
    """A configuration of k19: ``columns`` of B x ``rows`` of A a block, ``stages`` slices on their way to it.

    ``split`` blocks of a cluster divide K, ``share`` neighbouring tiles load A for each other, and ``outer`` clusters
    divide K once more, by way of global memory.
    """

    columns: int
    rows: int
    stages: int
    split: int = 1
    share: int = 1
    outer: int = 1

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}x{DEPTH}_s{self.stages}_k{self.split}_c{self.share}_o{self.outer}"

    @property
    def shared_bytes(self) -> int:
        return 1024 + self.stages * (self.columns + self.rows) * 2 * DEPTH

    @classmethod
    def named(cls, name: str) -> Tiles:
        return cls(*numbers(name, TILES))


def addressable(matrix: torch.Tensor) -> torch.Tensor | None:
    """``matrix`` with rows that the copy engine can address where they lie, or None: each begins on 16 bytes."""
    rows, columns = matrix.shape
    if matrix.stride(1) != 1 and columns > 1 or matrix.data_ptr() % 16:
        return None
    pitch = matrix.stride(0) if rows > 1 else cdiv(columns, 8) * 8
    if pitch % 8 or pitch < columns:
        return None
    return matrix.as_strided((rows, columns), (pitch, 1))


def laid_out(b: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """What the copy engine is to read for b (K, N), and whether that is b's transpose: copied only if it can read neither."""
    if (rows := addressable(b)) is not None:
        return rows, False
    if (columns := addressable(b.t())) is not None:
        return columns, True
    return b.contiguous(), False


def mapped(
    a: torch.Tensor, b: torch.Tensor, box: tuple[int, int]
) -> tuple[tuple[cuda.TensorMap, cuda.TensorMap], bool]:
    """Tensor maps of a, in boxes of ``box[0]`` rows, and of b, in boxes of ``box[1]`` columns where it is k-major; is it?"""
    rows = addressable(a)
    read, by_columns = laid_out(b)
    map_of_a = cuda.tensor_map(a.contiguous() if rows is None else rows, (box[0], DEPTH))
    return (map_of_a, cuda.tensor_map(read, (box[1] if by_columns else DEPTH, DEPTH))), by_columns


def skinny_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    if a.is_cuda and torch.cuda.get_device_capability(a.device) != (9, 0):
        return "takes a GPU of compute capability 9.0: its matrix products exist there alone"
    _, n, k = sizes(a, b)
    if addressable(a) is None and k % 8:
        return f"takes an a whose rows begin on 16 bytes, not k = {k} with strides {a.stride()}"
    if addressable(b) is None and addressable(b.t()) is None and n % 8:
        return f"takes a b whose rows or columns begin on 16 bytes, not n = {n} with strides {b.stride()}"
    return too_large(a, b)


def tiles_for(m: int, n: int, k: int, processors: int) -> Tiles:
    """The configuration that k19 takes by itself."""
    rows = next((width for width in WIDTHS if width >= m), WIDTHS[-1])
    columns = 64 if rows <= 64 else 128
    tiles, slices = cdiv(m, rows) * cdiv(n, columns), cdiv(k, DEPTH)
    split = 1
    while split < 8 and 2 * split * tiles <= processors * (2 if rows <= 64 else 1) and slices >= 8 * split:
        split *= 2
    each = (columns + rows) * 2 * DEPTH
    stages = min(16, (ROOM // (2 if rows <= 64 else 1) - 2048) // each)
    return Tiles(columns, rows, stages, split)


def skinny_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    own = tiles_for(*sizes(a, b), multiprocessors(a))
    return (str(own),)


def skinny_kernel(a: torch.Tensor, tiles: Tiles, by_columns: bool) -> str:
    element = cuda.ctype(a.dtype)
    sums = element if tiles.outer == 1 else "float"
    return (
        f"matmul_skinny<{element}, {sums}, {tiles.columns // 64}, {tiles.rows}, {str(by_columns).lower()}, "
        f"{tiles.stages}, {tiles.split}, {tiles.share}>"
    )


def skinny(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tiles = Tiles.named(config) if config else tiles_for(m, n, k, multiprocessors(a))
    maps, by_columns = mapped(a, b, (tiles.rows // tiles.share, tiles.columns))
    tiles_m, clusters = cdiv(m, tiles.rows), cdiv(n, tiles.columns * tiles.share) * tiles.outer
    grid = clusters * tiles_m * tiles.split * tiles.share, 2 * tiles.columns + 32, tiles.shared_bytes
    sums = c if tiles.outer == 1 else c.new_empty((tiles.outer, m, n), dtype=torch.float32)
    SKINNY[skinny_kernel(a, tiles, by_columns)][grid](*maps, cuda.out(sums), m, n, k, tiles_m, tiles.outer)
    if sums is not c:
        add = SKINNY[f"warpwise::sum_of_parts<{cuda.ctype(a.dtype)}>"]
        add[cdiv(m * n, 1024), 256](sums, cuda.out(c), m * n, tiles.outer)


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
    rows = next((width for width in WIDTHS if width >= m), WIDTHS[-1])
    each = {width: (ROOM - 2048 - min(width, 32) * 132 * 4) // ((128 + width) * 2 * DEPTH) for width in WIDTHS}
    widths = dict.fromkeys((rows, max(8, rows // 2), max(8, rows // 4)))
    return tuple(f"128x{width}x{DEPTH}_s{min(12, each[width])}" for width in widths)


def stream_k_kernel(a: torch.Tensor, config: str, by_columns: bool) -> str:
    columns, rows, stages = numbers(config, STREAM_K_TILES)
    return f"matmul_stream_k<{cuda.ctype(a.dtype)}, {columns // 64}, {rows}, {str(by_columns).lower()}, {stages}>"


def stream_k(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    config = config or stream_k_configs(a, b)[0]
    columns, rows, stages = numbers(config, STREAM_K_TILES)
    maps, by_columns = mapped(a, b, (rows, columns))
    tiles_m, tiles = cdiv(m, rows), cdiv(m, rows) * cdiv(n, columns)
    blocks = min(multiprocessors(a), tiles * cdiv(k, DEPTH))
    partials = c.new_empty(2 * blocks * columns * rows, dtype=torch.float32)
    shared = 1024 + stages * (columns + rows) * 2 * DEPTH + min(rows, 32) * (columns + 4) * 4
    kernel = STREAM_K[stream_k_kernel(a, config, by_columns)]
    kernel[blocks, 2 * columns + 32, shared](*maps, c, partials, tickets(a, tiles), m, n, k, tiles_m, tiles)
