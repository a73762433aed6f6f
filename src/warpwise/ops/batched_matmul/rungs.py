"""The ladder of batched_matmul, slowest idea first, and its launchers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.ops import _boxes
from warpwise.ops._common import cdiv, make_rung, multiprocessors
from warpwise.ops.batched_matmul import _deferred, _specialised
from warpwise.ops.batched_matmul.spec import KERNEL_DTYPES, sizes

HERE = Path(__file__).parent
NAIVE = cuda.load(HERE / "k01_naive.cu")
BLOCK_TILE = cuda.load(HERE / "k02_block_tile.cu")
SIDE = 2**31 - 1024  # sizes are 32 bits, and rows and columns reach up to a tile past the end
GRID_Y, LARGE = 65535, 128  # the most blocks in y and z; the side of k02's large tile


def strides(matrices: torch.Tensor) -> tuple[int, int, int]:
    """Elements from one matrix, row and column to the next; a factor with 2 dimensions is shared by all: 0."""
    across, along = matrices.stride()[-2:]
    return matrices.stride(0) if matrices.dim() == 3 else 0, across, along


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    batch, m, n, k = sizes(a, b)
    kernel = NAIVE[f"batched_matmul_naive<{cuda.ctype(a.dtype)}>"]
    grid = cdiv(n, 32), cdiv(m, 8), min(batch, GRID_Y)
    kernel[grid, (32, 8)](cuda.strided(a), cuda.strided(b), cuda.out(c), batch, m, n, k, *strides(a), *strides(b))


def whole_quads(factor: torch.Tensor) -> bool:
    """Whether four neighbours along memory's order exist together, next to each other and on their size, in every matrix."""
    matrix, across, along = strides(factor)
    length = factor.shape[-1]
    if _boxes.turned(factor):
        across, along, length = along, across, factor.shape[-2]
    aligned = factor.data_ptr() % (4 * factor.element_size()) == 0
    return aligned and along == 1 and not (length % 4 or across % 4 or matrix % 4)


def block_tile(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    batch, m, n, k = sizes(a, b)
    large = m > LARGE // 2 and n > LARGE // 2 and batch * cdiv(m, LARGE) * cdiv(n, LARGE) >= multiprocessors(a)
    side = LARGE if large else LARGE // 2
    flags = _boxes.turned(a), _boxes.turned(b), whole_quads(a), whole_quads(b), whole_quads(c)
    arguments = ", ".join([cuda.ctype(a.dtype), str(2 if large else 1), *(str(flag).lower() for flag in flags)])
    tiles_n = cdiv(n, side)
    tiles = cdiv(m, side) * tiles_n
    BLOCK_TILE[f"batched_matmul_block_tile<{arguments}>"][batch * tiles, 256](
        cuda.strided(a), cuda.strided(b), cuda.out(c), m, n, k, tiles, tiles_n, *strides(a), *strides(b)
    )


def triton_tiled(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.batched_matmul.k03_triton_tiled import batched_matmul_tiled

    batch, m, n, k = sizes(a, b)
    if a.dtype == torch.float32:
        block_m, block_n, block_k, warps, stages = 64, 64, 32, 4, 3
    elif batch * cdiv(m, 128) * cdiv(n, 128) >= multiprocessors(a):
        block_m, block_n, block_k, warps, stages = 128, 128, 64, 8, 3
    else:
        block_m, block_n, block_k, warps, stages = 64, 64, 64, 4, 4
    grid = (batch * cdiv(m, block_m) * cdiv(n, block_n),)
    batched_matmul_tiled[grid](
        a, b, c, m, n, k, *strides(a), *strides(b),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=8, num_warps=warps, num_stages=stages,
    )  # fmt: skip


def descriptors_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the one that keeps the SMs busiest first."""
    return _boxes.ranked(*sizes(a, b), multiprocessors(a))


def shared(factor: torch.Tensor) -> bool:
    """Whether every product takes the same matrix."""
    return factor.dim() == 2 or factor.shape[0] == 1 or factor.stride(0) == 0


def triton_descriptors(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    from warpwise import triton as wt
    from warpwise.ops.batched_matmul.k04_triton_descriptors import batched_matmul_descriptors

    boxes = _boxes.named(config or descriptors_configs(a, b)[0])
    batch, m, n, k = sizes(a, b)

    def described(factor: torch.Tensor, rows: int, columns: int) -> Any:
        matrices = factor[None] if factor.dim() == 2 else factor
        return _boxes.described(matrices[:1] if shared(matrices) else matrices, (rows, columns))

    programs = _boxes.programs(boxes, batch * cdiv(m, boxes.m) * cdiv(n, boxes.n), a)
    batched_matmul_descriptors[(programs,)](
        described(a, boxes.m, boxes.k), described(b, boxes.k, boxes.n), wt.out(described(c, boxes.m, boxes.n // 2)),
        batch, m, n, k, programs, BLOCK_M=boxes.m, BLOCK_N=boxes.n, BLOCK_K=boxes.k, GROUP=8,
        A_SHARED=shared(a), B_SHARED=shared(b), A_TURNED=_boxes.turned(a), B_TURNED=_boxes.turned(b),
        num_warps=boxes.warps, num_stages=boxes.stages,
    )  # fmt: skip


def sizes_limit(a: torch.Tensor, b: torch.Tensor) -> str | None:
    for name, size in zip(("batch", "m", "n", "k"), sizes(a, b), strict=True):
        if size > SIDE:
            return f"takes sizes up to {SIDE}, not {name} = {size}"
    return None


def naive_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    if sizes(a, b)[1] > 8 * GRID_Y:
        return f"takes up to {8 * GRID_Y} rows of a (grid.y is 16 bits), not {a.shape[-2]}"
    return sizes_limit(a, b)


def tiles_limit(a: torch.Tensor, b: torch.Tensor) -> str | None:
    batch, m, n, _ = sizes(a, b)
    tiles = batch * cdiv(m, 64) * cdiv(n, 64)
    return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}" if tiles >= 2**31 else sizes_limit(a, b)


def descriptors_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A GPU with a copy engine, and matrices that it can address."""
    unit = 16 // a.element_size()
    if b.shape[-1] % unit:
        return f"takes n in multiples of {unit}, so that rows of C begin on 16 bytes, not {b.shape[-1]}"
    return _boxes.engine(a) or _boxes.boxable("a", a) or _boxes.boxable("b", b) or tiles_limit(a, b)


def specialised_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    return _specialised.limits(a) or tiles_limit(a, b)


def deferred_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    return _deferred.limits(a, b) or tiles_limit(a, b)


RUNGS = (
    make_rung(HERE, "k01_naive", "one thread an element, any strides", naive,
              dtypes=KERNEL_DTYPES, limits=naive_limits, strided=True),
    make_rung(HERE, "k02_block_tile", "tiles in shared memory, loads along memory's order", block_tile,
              dtypes=KERNEL_DTYPES, limits=tiles_limit, strided=True),
    make_rung(HERE, "k03_triton_tiled", "tiles in Triton, any strides", triton_tiled,
              dtypes=KERNEL_DTYPES, limits=tiles_limit, strided=True),
    make_rung(HERE, "k04_triton_descriptors", "boxes by the copy engine; matrices, tiles and slices one loop",
              triton_descriptors, dtypes=(torch.float16, torch.bfloat16), limits=descriptors_limits,
              configs=descriptors_configs, strided=True),
    make_rung(HERE, "k05_warp_specialised", "float32: two blocks an SM, in each of which four warps feed and four multiply",
              _specialised.warp_specialised, dtypes=(torch.float32,), limits=specialised_limits, devices=("cuda",),
              configs=_specialised.configs, strided=True),
    make_rung(HERE, "k06_deferred_stores", "Hopper: a tile leaves under the next one's products, of the next matrix too",
              _deferred.deferred_stores, dtypes=(torch.float16, torch.bfloat16), limits=deferred_limits, devices=("cuda",),
              configs=_deferred.configs, strided=True),
)  # fmt: skip


def default(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """Hopper's kernels where they take the factors and have tiles for most SMs. Elsewhere descriptors where the copy engine
    can address 2-byte factors, tiles in Triton, and tiles in CUDA for a turned float32 B, which Triton reads at a third of
    the speed; PyTorch for float64 and huge sizes."""
    if a.dtype not in KERNEL_DTYPES or tiles_limit(a, b):
        return None
    batch, m, n, _ = sizes(a, b)
    if a.is_cuda and 4 * batch * cdiv(m, 128) * cdiv(n, 128) >= 3 * multiprocessors(a):
        if a.dtype == torch.float32 and not specialised_limits(a, b):
            return "k05_warp_specialised"
        if a.dtype != torch.float32 and not deferred_limits(a, b):
            return "k06_deferred_stores"
    if a.dtype == torch.float32:
        return "k02_block_tile" if _boxes.turned(b) else "k03_triton_tiled"
    return "k03_triton_tiled" if descriptors_limits(a, b) else "k04_triton_descriptors"
