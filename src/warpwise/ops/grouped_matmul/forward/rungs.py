"""The ladder of grouped_matmul, slowest idea first, and its launchers. None reads the offsets: they stay on the device."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import boxes
from warpwise.gemm.limits import GRID_Y, requires_k, requires_tma, sizes_limit
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops.grouped_matmul.spec import HALVES, KERNEL_DTYPES

HERE = Path(__file__).parent
NAIVE = cuda.load(HERE / "k01_naive.cu")
MAX_GROUPS = 4095  # and one more for the rows past the last end; a Triton program searches all at once


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> None:
    (rows, k), n = a.shape, b.shape[2]
    kernel = NAIVE[f"grouped_matmul_naive<{cuda.ctype(a.dtype)}>"]
    kernel[(cdiv(n, 32), min(cdiv(rows, 8), GRID_Y)), (32, 8)](
        cuda.strided(a),
        cuda.strided(b),
        offsets.contiguous(),
        cuda.out(c),
        rows,
        n,
        k,
        b.shape[0],
        *a.stride(),
        *b.stride(),
    )


def padded_groups(groups: int) -> int:
    """The power of two that holds every group and the rows past the last end."""
    return 1 << groups.bit_length()


def triton_tiled(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> None:
    from warpwise.ops.grouped_matmul.forward.k02_triton_tiled import grouped_matmul_tiled

    (rows, k), (groups, _, n) = a.shape, b.shape
    block_m, block_n, block_k, warps, stages = (64, 64, 32, 4, 3) if a.dtype == torch.float32 else (128, 128, 64, 8, 3)
    programs = (cdiv(rows, block_m) + groups + 1) * cdiv(n, block_n)
    grouped_matmul_tiled[(programs,)](
        a,
        b,
        offsets.contiguous(),
        c,
        rows,
        n,
        k,
        groups,
        *a.stride(),
        *b.stride(),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUPS=padded_groups(groups),
        num_warps=warps,
        num_stages=stages,
    )


def triton_descriptors(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, config: str | None = None
) -> None:
    from warpwise import triton as wt
    from warpwise.ops.grouped_matmul.forward.k03_triton_descriptors import grouped_matmul_descriptors

    tile = boxes.named(config or descriptors_configs(a, b, offsets)[0])
    (rows, k), (groups, _, n) = a.shape, b.shape
    programs = boxes.programs(tile, (cdiv(rows, tile.m) + groups) * cdiv(n, tile.n), a)
    grouped_matmul_descriptors[(programs,)](
        boxes.descriptor(a, (tile.m, tile.k)),
        boxes.descriptor(b, (tile.k, tile.n)),
        offsets.contiguous(),
        wt.out(c),
        rows,
        n,
        k,
        groups,
        programs,
        BLOCK_M=tile.m,
        BLOCK_N=tile.n,
        BLOCK_K=tile.k,
        GROUP=8,
        GROUPS=padded_groups(groups),
        B_TRANSPOSED=boxes.transposed(b),
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def descriptors_configs(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the fastest first if all groups have the same number of rows."""
    groups = b.shape[0]
    return boxes.ranked(groups, cdiv(a.shape[0], max(1, groups)), b.shape[2], a.shape[1], sm_count(a))


def naive_limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    return sizes_limit(rows=a.shape[0], groups=b.shape[0], n=b.shape[2], k=a.shape[1])


def tiles_limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A number of groups that one program can search, and a grid of tiles."""
    if b.shape[0] > MAX_GROUPS:
        return f"takes up to {MAX_GROUPS} groups, not {b.shape[0]}"
    tiles = (cdiv(a.shape[0], 64) + b.shape[0] + 1) * cdiv(b.shape[2], 64)
    return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}" if tiles >= 2**31 else naive_limits(a, b, offsets)


def descriptors_limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A GPU with TMA, and matrices that it can address."""
    unit = 16 // a.element_size()
    if b.shape[0] == 0:
        return "takes 1 group or more, not 0"
    if b.shape[2] % unit:
        return f"takes n in multiples of {unit}, so that rows of C begin on 16 bytes, not {b.shape[2]}"
    if boxes.transposed(a):
        return (
            f"takes a with contiguous rows, not strides {tuple(a.stride())}: a box begins at any row, but along it at "
            "multiples of 16 bytes"
        )
    reason = requires_k(a.shape[1]) or requires_tma(a) or boxes.tma_limit("a", a) or boxes.tma_limit("b", b)
    return reason or tiles_limits(a, b, offsets)


RUNGS: tuple[Rung, ...] = (
    make_rung(
        HERE,
        "k01_naive",
        "one thread an element, its group found by binary search",
        naive,
        dtypes=KERNEL_DTYPES,
        limits=naive_limits,
        strided=True,
    ),
    make_rung(
        HERE,
        "k02_triton_tiled",
        "tiles in Triton, any strides, as many programs as any offsets may need",
        triton_tiled,
        dtypes=KERNEL_DTYPES,
        limits=tiles_limits,
        strided=True,
    ),
    make_rung(
        HERE,
        "k03_triton_descriptors",
        "operands by TMA; one loop over groups, tiles and k",
        triton_descriptors,
        dtypes=HALVES,
        limits=descriptors_limits,
        configs=descriptors_configs,
        strided=True,
    ),
)


def default(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """k03 where TMA can address 2-byte operands, else k02; PyTorch for float64 and huge sizes."""
    if a.dtype not in KERNEL_DTYPES or tiles_limits(a, b, offsets):
        return None
    by_tma = a.dtype in HALVES and not descriptors_limits(a, b, offsets)
    return "k03_triton_descriptors" if by_tma else "k02_triton_tiled"
