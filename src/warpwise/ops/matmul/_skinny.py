"""Launchers for products with few rows or few tiles, which divide K to fill the GPU: k17, k18, k19."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.config import config_numbers
from warpwise.gemm.limits import HOPPER_SHARED, requires_hopper, requires_k, size_limit
from warpwise.gemm.operands import addressable, addressable_view, row_major_copy, sizes, tma_operand
from warpwise.gemm.semaphores import semaphores
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul._skinny_config import BOX, SkinnyConfig, ranked

HERE = Path(__file__).parent
STREAM_K = cuda.load(HERE / "k18_stream_k.cu")
SKINNY = cuda.load(HERE / "k19_skinny.cu")
ROWS = (8, 16, 32, 64, 128, 256)  # of a tile of k18
STREAM_K_FORM = re.compile(r"(\d+)x(\d+)x(\d+)_s(\d+)")
SPLIT_K_FORM = re.compile(r"(\d+)x(\d+)x(\d+)_w(\d+)_s(\d+)_p(\d+)")  # block, warps, stages, splits of K


def operand_maps(
    a: torch.Tensor, b: torch.Tensor, box: tuple[int, int], share: int = 1
) -> tuple[tuple[cuda.TensorMap, cuda.TensorMap], bool]:
    """Tensor maps of a, in boxes of ``box[0]`` rows, and of b, in boxes of ``box[1]`` columns if b is K-major; True if it is.

    A box of b holds one ``share``-th of its rows. L2 promotion is 256 bytes, but 64 where many rows of a load b and
    rows do not begin on 256 bytes: 6 % faster at 1000 x 3000 x 776 on an H200.
    """
    rows = addressable(a)
    read_b, b_k_major = tma_operand(b)
    read_a = row_major_copy(a) if rows is None else rows
    ragged = a.shape[0] > 256 and any(matrix.stride(0) % (2 * BOX) for matrix in (read_a, read_b))
    promotion = 64 if ragged else 256
    a_map = cuda.tensor_map(read_a, (box[0], BOX), promotion=promotion)
    b_map = cuda.tensor_map(read_b, ((box[1] if b_k_major else BOX) // share, BOX), promotion=promotion)
    return (a_map, b_map), b_k_major


def skinny_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU, and operands that TMA can address in place or in a row-major copy."""
    _, n, k = sizes(a, b)
    if reason := requires_hopper(a) or requires_k(k):
        return reason
    if addressable(a) is None and k % 8:
        return f"takes an a whose rows begin on 16 bytes, not k = {k} with strides {a.stride()}"
    if addressable_view(b) is None and n % 8:
        return f"takes a b whose rows or columns begin on 16 bytes, not n = {n} with strides {b.stride()}"
    return size_limit(a, b)


def skinny_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """The twelve configurations that are estimated to be fastest, in order."""
    return tuple(map(str, ranked(*sizes(a, b), sm_count(a))[:12]))


def skinny_kernel(a: torch.Tensor, config: SkinnyConfig, b_k_major: bool) -> str:
    order, apart = (str(value).lower() for value in (b_k_major, config.apart))
    shared = "b" if config.down > 1 else "a" if config.across > 1 else "nothing"
    return (
        f"matmul_skinny{'_no_cluster' if config.split * config.pair == 1 else ''}<{cuda.ctype(a.dtype)}, "
        f"{config.columns // 64}, {config.rows}, {order}, {config.depth}, {config.stages}, {config.split}, {apart}, "
        f"Shared::{shared}>"
    )


def skinny(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    chosen = SkinnyConfig.named(config) if config else ranked(m, n, k, sm_count(a))[0]
    maps, b_k_major = operand_maps(a, b, (chosen.rows // chosen.across, chosen.columns), chosen.down)
    tiles_m, across = cdiv(m, chosen.rows * chosen.down), cdiv(n, chosen.columns * chosen.across)
    blocks = tiles_m * across * chosen.pair
    launch = blocks * chosen.outer * chosen.split, 2 * chosen.columns + 32, chosen.shared_bytes
    boxes = n % 8 == 0 and c.data_ptr() % 16 == 0
    c_map = cuda.tensor_map(c, (chosen.rows // chosen.finish, BOX)) if boxes else maps[0]
    partials = counters = None
    if chosen.outer > 1:
        partials = c.new_empty(blocks * chosen.outer * chosen.columns * chosen.rows, dtype=torch.float32)
        counters = semaphores(a, blocks * chosen.finish)
    SKINNY[skinny_kernel(a, chosen, b_k_major)][launch](
        *maps, c_map, cuda.out(c), partials, counters, boxes, m, n, k, tiles_m, chosen.outer
    )


def split_k(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    from warpwise.ops.matmul.k17_split_k import matmul_split_k, reduce_splits

    m, n, k = sizes(a, b)
    block_m, block_n, block_k, warps, stages, parts = config_numbers(
        "matmul", config or split_k_configs(a, b)[0], SPLIT_K_FORM
    )
    sums = c if parts == 1 else c.new_empty((parts, m, n), dtype=torch.float32)
    matmul_split_k[(cdiv(m, block_m) * cdiv(n, block_n) * parts,)](
        a,
        b,
        sums,
        m,
        n,
        k,
        *a.stride(),
        *b.stride(),
        parts,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        num_warps=warps,
        num_stages=stages,
    )
    if parts > 1:
        reduce_splits[(cdiv(m * n, 1024),)](sums, c, m * n, parts, BLOCK=1024, num_warps=4)


def split_k_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Tiles by the dtype and the rows of A, and splits of K that give each SM about two programs; half and twice as many."""
    m, n, k = sizes(a, b)
    block_m = next((size for size in (16, 32, 64) if size >= m), 64)
    names = []
    for block_n, block_k, warps, stages in (
        ((64, 128, 4, 4), (128, 64, 4, 4)) if a.dtype != torch.float32 else ((64, 32, 4, 4), (128, 32, 4, 3))
    ):
        tiles, k_tiles = cdiv(m, block_m) * cdiv(n, block_n), cdiv(k, block_k)
        fill = cdiv(2 * sm_count(a), max(1, tiles))
        for parts in dict.fromkeys((fill, cdiv(fill, 2), 2 * fill, 1)):
            names.append(f"{block_m}x{block_n}x{block_k}_w{warps}_s{stages}_p{max(1, min(parts, k_tiles // 2))}")
    return tuple(dict.fromkeys(names))


def stream_k_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Tiles with as many rows as A has, and with half and a quarter of them; as many stages as fit."""
    m, _, _ = sizes(a, b)
    rows = next((width for width in ROWS if width >= m), ROWS[-1])
    widths = dict.fromkeys((rows, max(8, rows // 2), max(8, rows // 4)))
    stages = {width: (HOPPER_SHARED - 2048 - min(width, 32) * 132 * 4) // ((128 + width) * 2 * BOX) for width in widths}
    return tuple(f"128x{width}x{BOX}_s{min(12, stages[width])}" for width in widths)


def stream_k_kernel(a: torch.Tensor, config: str, b_k_major: bool) -> str:
    columns, rows, depth, stages = config_numbers("matmul", config, STREAM_K_FORM)
    order = str(b_k_major).lower()
    return f"matmul_stream_k<{cuda.ctype(a.dtype)}, {columns // 64}, {rows}, {order}, {depth}, {stages}>"


def stream_k(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    config = config or stream_k_configs(a, b)[0]
    columns, rows, depth, stages = config_numbers("matmul", config, STREAM_K_FORM)
    maps, b_k_major = operand_maps(a, b, (rows, columns))
    tiles_m, tiles = cdiv(m, rows), cdiv(m, rows) * cdiv(n, columns)
    blocks = min(sm_count(a), tiles * cdiv(k, depth))
    partials = c.new_empty(2 * blocks * columns * rows, dtype=torch.float32)
    shared = 1024 + stages * (columns + rows) * 2 * depth + min(rows, 32) * (columns + 4) * 4
    kernel = STREAM_K[stream_k_kernel(a, config, b_k_major)]
    kernel[blocks, 2 * columns + 32, shared](*maps, c, partials, semaphores(a, tiles), m, n, k, tiles_m, tiles)
