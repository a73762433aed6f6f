"""The launcher of k03, and its configurations: m counts columns of C, which are wgmma's m, and n counts rows."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.device.limits import HOPPER_SHARED
from warpwise.gemm import partial_sums, skinny
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import flags, sizes
from warpwise.gemm.skinny import separate_buffer
from warpwise.gemm.time_model import Family, Product
from warpwise.gemm.time_model import skinny as skinny_geometry
from warpwise.operation import cdiv
from warpwise.ops.matmul_tf32._shared import aligned_copy, aligned_rows, k_major, launches

SKINNY = cuda.load(Path(__file__).with_suffix(".cu"))

WIDTHS = (8, 16, 32, 64, 128, 256)  # rows of A: wgmma's n
DEPTH = 32  # of a stage: 128 bytes, a swizzled row
MOST_CONFIGS = 12


class Layout(NamedTuple):
    """Layout of B. ``k_major``: column-major. ``shifted``: its rows or columns are not 16-byte aligned."""

    k_major: bool
    shifted: bool


def kernel_name(config: GemmConfig, layout: Layout) -> str:
    tile = f"{config.m // 64}, {config.n}, {config.stages}, {config.cluster_splits}, {producers(config, layout)}"
    separate = separate_buffer(config, ring(config, layout))
    return f"matmul_skinny{'_shifted' if layout.shifted else ''}<{flags(layout.k_major)}, {tile}, {flags(separate)}>"


def ring(config: GemmConfig, layout: Layout) -> int:
    """Bytes of the stages: operands of a stage begin on 1 KiB; shifted rows of B are four words longer."""
    longer = 4 * (config.m if layout.k_major else DEPTH) if layout.shifted else 0
    of_b = cdiv((config.m * DEPTH + longer) * 4, 1024) * 1024
    return 1024 + config.stages * (of_b + config.n * DEPTH * 4)


def shared_bytes(config: GemmConfig, layout: Layout) -> int:
    return skinny.shared_bytes(config, ring(config, layout))


def producers(config: GemmConfig, layout: Layout) -> int:
    """Producer threads: a warp, or a warpgroup that deallocates registers (setmaxnreg) if nine warps would have too few
    registers for 128 sums and the fragments of two k-tiles."""
    return 128 if config.m == 128 and config.n == 256 and layout != Layout(True, False) else 32


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tile = GemmConfig.parse(config or configs(a, b)[0], "matmul_tf32")
    lines, layout = b_operand(b)
    tiles_m, clusters = cdiv(m, tile.n), cdiv(n, tile.m) * tile.splits
    rows = permute_k(a) if layout == Layout(False, True) else k_major(a)
    partials = c if tile.splits == 1 else c.new_empty((tile.splits, m, n))
    blocks, threads = clusters * tiles_m * tile.cluster_splits, 2 * tile.m + producers(tile, layout)
    SKINNY[kernel_name(tile, layout)][blocks, threads, shared_bytes(tile, layout)](
        *(cuda.tensor_map(rows, (tile.n, DEPTH), tf32=True), *b_arguments(lines, layout, tile.m)),
        *(cuda.out(partials), m, n, k, tiles_m, tile.splits),
    )
    if partials is not c:
        partial_sums.add(partials, c)


def candidates(product: Product) -> list[GemmConfig]:
    """Tiles that hold all rows of A, or fewer of many, with K whole, halved, or divided to fill the GPU."""
    m, n, k, sms = product.m, product.n, product.k, product.sms
    widest = next((width for width in WIDTHS if width >= m), WIDTHS[-1])
    tiles_128 = cdiv(m, 128) * cdiv(n, 64)
    narrow = tiles_128 < sms if m > 128 else 4 * tiles_128 < sms  # else tiles of all rows, or of 128
    least = min(widest, max(32, widest // 8) if narrow else 128)
    found = []
    for rows in (width for width in WIDTHS if least <= width <= widest):
        for columns, split, an_sm in itertools.product((64, 128), (1, 2, 4), (1, 2)):
            stages = stages_of(columns, rows, an_sm)
            tiles = max(1, cdiv(m, rows) * cdiv(n, columns))
            for outer in (1, an_sm * sms // (split * tiles)):
                whole = rows * (columns + 4) <= stages * (rows + columns) * DEPTH  # sums reuse the stages' memory
                deep = split * outer == 1 or k >= 2 * DEPTH * split * outer
                if stages >= 3 and whole and deep and outer >= 1 and (an_sm == 1 or columns == 64):
                    found.append(GemmConfig(columns, rows, DEPTH, stages, cluster_splits=split, splits=outer))
    return found


FAMILY = Family(
    skinny_geometry,
    words=lambda product, kind: (16, product.words[1]),  # unaligned rows of B are loaded with four tensor maps
    copied=lambda product, kind: product.m * product.k if product.words[0] < 16 else 0,
    launches=launches,
    units="tf32",
)
configs = FAMILY.configs(candidates, MOST_CONFIGS)


def stages_of(columns: int, rows: int, an_sm: int) -> int:
    """Pipeline stages with ``an_sm`` blocks per SM. 64 KB of B in flight are enough, 80 with 128 columns or two blocks;
    with more, the positions of the blocks along K diverge."""
    enough = 5 if columns == 128 or an_sm == 2 else 8 if rows < 128 else 6
    return min(
        enough, (HOPPER_SHARED // an_sm - 2048) // (cdiv((columns + 4) * DEPTH * 4, 1024) * 1024 + rows * DEPTH * 4)
    )


def b_operand(b: torch.Tensor) -> tuple[torch.Tensor, Layout]:
    """B's rows or columns, as rows, and its layout: in place if TMA can load them, else a copy.

    Shifted rows, which do not begin on a multiple of 16 bytes, can be loaded in place if there are at least four.
    """
    for by_columns, lines in ((True, b.t()), (False, b)):
        if aligned_rows(lines):
            return lines, Layout(by_columns, False)
    storage = b.data_ptr() - b.storage_offset() * 4
    for by_columns, lines in ((True, b.t()), (False, b)):
        if lines.stride(1) == 1 and lines.stride(0) >= lines.shape[1] and lines.shape[0] >= 4 and storage % 16 == 0:
            return lines, Layout(by_columns, True)
    return aligned_copy(b), Layout(False, False)


def b_arguments(lines: torch.Tensor, layout: Layout, columns: int) -> tuple[cuda.TensorMap | int, ...]:
    """The kernel's arguments for b, in tiles of ``columns``: a tensor map, or four of lines 4 j + i for i = 0 to 3 of a
    shifted b, each from the multiple of 16 bytes below its first line, and where in 16 bytes lines begin."""
    if not layout.shifted:
        return (cuda.tensor_map(lines, (columns if layout.k_major else DEPTH, DEPTH), tf32=True),)
    box = (columns // 4, DEPTH + 4) if layout.k_major else (DEPTH // 4, columns + 4)
    count, length, pitch = int(lines.shape[0]), int(lines.shape[1]), int(lines.stride(0))
    maps = []
    for first in range(4):
        begin = int(lines.storage_offset()) + first * pitch
        shape = (cdiv(count - first, 4), length + begin % 4), (4 * pitch, 1)
        fourth = lines.as_strided((1, 1), (1, 1), begin - begin % 4)
        maps.append(cuda.tensor_map(fourth, box, swizzle=0, tf32=True, layout=shape))
    return *maps, int(lines.storage_offset()) % 4, pitch % 4


def permute_k(a: torch.Tensor) -> torch.Tensor:
    """A with each 32 columns permuted to the order in which k03 multiplies shifted rows of B."""
    m, k = a.shape
    result = a.new_empty((m, cdiv(k, DEPTH) * DEPTH))
    SKINNY["permute_k"][cdiv(result.numel(), 256), 256](cuda.strided(a), *a.stride(), cuda.out(result), m, k)
    return result
