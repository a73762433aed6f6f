"""The ladder of batched_matmul, slowest idea first, with the launchers of k01 to k04."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm import boxes
from warpwise.gemm.limits import GRID_Y, requires_k, requires_tma
from warpwise.gemm.limits import sizes_limit as limit_of
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops.batched_matmul import _deferred, _specialised
from warpwise.ops.batched_matmul.spec import KERNEL_DTYPES, sizes

HERE = Path(__file__).parent
NAIVE = cuda.load(HERE / "k01_naive.cu")
BLOCK_TILE = cuda.load(HERE / "k02_block_tile.cu")
LARGE = 128  # the side of k02's large tile


def strides(matrices: torch.Tensor) -> tuple[int, int, int]:
    """The strides of matrices, rows and columns in elements; 0 for matrices if the operand has 2 dimensions."""
    across, along = matrices.stride()[-2:]
    return matrices.stride(0) if matrices.dim() == 3 else 0, across, along


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    batch, m, n, k = sizes(a, b)
    kernel = NAIVE[f"batched_matmul_naive<{cuda.ctype(a.dtype)}>"]
    grid = cdiv(n, 32), cdiv(m, 8), min(batch, GRID_Y)
    kernel[grid, (32, 8)](cuda.strided(a), cuda.strided(b), cuda.out(c), batch, m, n, k, *strides(a), *strides(b))


def vectorisable(operand: torch.Tensor) -> bool:
    """True if the contiguous dimension of every matrix can be read in aligned vectors of four elements."""
    matrix, across, along = strides(operand)
    length = operand.shape[-1]
    if boxes.transposed(operand):
        across, along, length = along, across, operand.shape[-2]
    aligned = operand.data_ptr() % (4 * operand.element_size()) == 0
    return aligned and along == 1 and not (length % 4 or across % 4 or matrix % 4)


def block_tile(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    batch, m, n, k = sizes(a, b)
    large = m > LARGE // 2 and n > LARGE // 2 and batch * cdiv(m, LARGE) * cdiv(n, LARGE) >= sm_count(a)
    side = LARGE if large else LARGE // 2
    flags = boxes.transposed(a), boxes.transposed(b), vectorisable(a), vectorisable(b), vectorisable(c)
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
    elif batch * cdiv(m, 128) * cdiv(n, 128) >= sm_count(a):
        block_m, block_n, block_k, warps, stages = 128, 128, 64, 8, 3
    else:
        block_m, block_n, block_k, warps, stages = 64, 64, 64, 4, 4
    grid = (batch * cdiv(m, block_m) * cdiv(n, block_n),)
    batched_matmul_tiled[grid](
        a,
        b,
        c,
        m,
        n,
        k,
        *strides(a),
        *strides(b),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP=8,
        num_warps=warps,
        num_stages=stages,
    )


def descriptors_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the fastest by ``BoxTile.time`` first."""
    return boxes.ranked(*sizes(a, b), sm_count(a))


def shared(operand: torch.Tensor) -> bool:
    """True if all products share one matrix."""
    return operand.dim() == 2 or operand.shape[0] == 1 or operand.stride(0) == 0


def triton_descriptors(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    from warpwise import triton as wt
    from warpwise.ops.batched_matmul.k04_triton_descriptors import batched_matmul_descriptors

    tile = boxes.named(config or descriptors_configs(a, b)[0])
    batch, m, n, k = sizes(a, b)

    def descriptor(operand: torch.Tensor, rows: int, columns: int) -> Any:
        matrices = operand[None] if operand.dim() == 2 else operand
        return boxes.descriptor(matrices[:1] if shared(matrices) else matrices, (rows, columns))

    programs = boxes.programs(tile, batch * cdiv(m, tile.m) * cdiv(n, tile.n), a)
    batched_matmul_descriptors[(programs,)](
        descriptor(a, tile.m, tile.k),
        descriptor(b, tile.k, tile.n),
        wt.out(descriptor(c, tile.m, tile.n // 2)),
        batch,
        m,
        n,
        k,
        programs,
        BLOCK_M=tile.m,
        BLOCK_N=tile.n,
        BLOCK_K=tile.k,
        GROUP=8,
        A_SHARED=shared(a),
        B_SHARED=shared(b),
        A_TRANSPOSED=boxes.transposed(a),
        B_TRANSPOSED=boxes.transposed(b),
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def sizes_limit(a: torch.Tensor, b: torch.Tensor) -> str | None:
    batch, m, n, k = sizes(a, b)
    return limit_of(batch=batch, m=m, n=n, k=k)


def naive_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    if sizes(a, b)[1] > 8 * GRID_Y:
        return f"takes up to {8 * GRID_Y} rows of a (grid.y is 16 bits), not {a.shape[-2]}"
    return sizes_limit(a, b)


def tiles_limit(a: torch.Tensor, b: torch.Tensor) -> str | None:
    batch, m, n, _ = sizes(a, b)
    tiles = batch * cdiv(m, 64) * cdiv(n, 64)
    return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}" if tiles >= 2**31 else sizes_limit(a, b)


def descriptors_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A GPU with TMA, and matrices that it can address."""
    unit = 16 // a.element_size()
    if b.shape[-1] % unit:
        return f"takes n in multiples of {unit}, so that rows of C begin on 16 bytes, not {b.shape[-1]}"
    addressable = requires_tma(a) or boxes.tma_limit("a", a) or boxes.tma_limit("b", b)
    return requires_k(a.shape[-1]) or addressable or tiles_limit(a, b)


def specialised_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    return _specialised.limits(a) or tiles_limit(a, b)


def overlapped_epilogue_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    return _deferred.limits(a, b) or tiles_limit(a, b)


RUNGS = (
    make_rung(
        HERE,
        "k01_naive",
        "one thread an element, any strides",
        naive,
        dtypes=KERNEL_DTYPES,
        limits=naive_limits,
        strided=True,
    ),
    make_rung(
        HERE,
        "k02_block_tile",
        "tiles in shared memory, coalesced loads in any layout",
        block_tile,
        dtypes=KERNEL_DTYPES,
        limits=tiles_limit,
        strided=True,
    ),
    make_rung(
        HERE,
        "k03_triton_tiled",
        "tiles in Triton, any strides",
        triton_tiled,
        dtypes=KERNEL_DTYPES,
        limits=tiles_limit,
        strided=True,
    ),
    make_rung(
        HERE,
        "k04_triton_descriptors",
        "operands by TMA; one loop over matrices, tiles and k",
        triton_descriptors,
        dtypes=(torch.float16, torch.bfloat16),
        limits=descriptors_limits,
        configs=descriptors_configs,
        strided=True,
    ),
    make_rung(
        HERE,
        "k05_warp_specialised",
        "float32: two blocks an SM, each with four producer warps and four consumer warps",
        _specialised.warp_specialised,
        dtypes=(torch.float32,),
        limits=specialised_limits,
        devices=("cuda",),
        configs=_specialised.configs,
        strided=True,
    ),
    make_rung(
        HERE,
        "k06_overlapped_epilogue",
        "Hopper: the epilogue overlaps the products of the next tile or matrix",
        _deferred.overlapped_epilogue,
        dtypes=(torch.float16, torch.bfloat16),
        limits=overlapped_epilogue_limits,
        devices=("cuda",),
        configs=_deferred.configs,
        strided=True,
    ),
)


def default(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The rung for sizes that no table covers; PyTorch for float64 and huge sizes.

    Hopper's kernels where they take the operands and have tiles for most SMs. Elsewhere k04 where TMA can address 2-byte
    operands, else k03; k02 for a column-major float32 B, which Triton reads at a third of the speed.
    """
    if a.dtype not in KERNEL_DTYPES or tiles_limit(a, b):
        return None
    batch, m, n, _ = sizes(a, b)
    if a.is_cuda and 4 * batch * cdiv(m, 128) * cdiv(n, 128) >= 3 * sm_count(a):
        if a.dtype == torch.float32 and not specialised_limits(a, b):
            return "k05_warp_specialised"
        if a.dtype != torch.float32 and not overlapped_epilogue_limits(a, b):
            return "k06_overlapped_epilogue"
    if a.dtype == torch.float32:
        return "k02_block_tile" if boxes.transposed(b) else "k03_triton_tiled"
    return "k03_triton_tiled" if descriptors_limits(a, b) else "k04_triton_descriptors"
