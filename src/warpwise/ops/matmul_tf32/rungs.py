"""The ladder of matmul_tf32, slowest idea first, and its launchers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, make_rung, multiprocessors
from warpwise.ops._tiles import shared_bytes
from warpwise.ops.matmul import _bytes
from warpwise.ops.matmul._ampere import Tiling, ampere, fills, launch, names, wmma_limits
from warpwise.ops.matmul._shared import grid_of_tiles, sizes
from warpwise.ops.matmul_tf32 import _skinny, _turned
from warpwise.registry import Rung

HERE = Path(__file__).parent
WMMA = cuda.load(HERE / "k01_wmma.cu")
MMA_SYNC = cuda.load(HERE / "k02_mma_sync.cu")
WARPGROUPS = cuda.load(HERE / "k04_warpgroups.cu")

# Rows and columns of a block's tile and of a warp's, bytes of k in a slice, slices in flight, blocks an SM.
TILINGS = (
    Tiling(256, 128, 64, 64, 128, 4, 1),
    Tiling(128, 256, 64, 64, 128, 4, 1),
    Tiling(128, 128, 64, 64, 128, 3, 2),
    Tiling(64, 128, 32, 64, 128, 3, 2),
    Tiling(64, 64, 32, 32, 64, 4, 4),
)


def wmma(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    # 128 x 128 a block, 32 x 64 a warp; a quarter of that where the large tiles would not fill the GPU.
    large = fills(a, cdiv(m, 128) * cdiv(n, 128), 1)
    side, tiles, threads = (128, "128, 128, 16, 32, 64", 256) if large else (64, "64, 64, 16, 32, 32", 128)
    aligned = k % 4 == 0 and n % 4 == 0 and a.data_ptr() % 16 == 0 and b.data_ptr() % 16 == 0
    kernel = WMMA[f"matmul_wmma<{tiles}, {str(aligned).lower()}>"]
    kernel[(cdiv(n, side), cdiv(m, side)), threads](a, b, cuda.out(c), m, n, k)


def configs(a: torch.Tensor, b: torch.Tensor) -> Sequence[str]:
    return names(TILINGS, a, b)


def mma_sync(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, config: str | None = None) -> None:
    launch(MMA_SYNC, (), TILINGS, False, c, a, b, config)


def triton_tiled(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.matmul_tf32.k03_triton_tiled import matmul_tiled

    m, n, k = sizes(a, b)
    large = cdiv(m, 256) * cdiv(n, 128) >= multiprocessors(a) and shared_bytes(a) >= 3 * 4 * 32 * (256 + 128)
    block_m, block_n, block_k, warps, stages = (256, 128, 32, 8, 3) if large else (64, 64, 32, 4, 4)
    matmul_tiled[(cdiv(m, block_m) * cdiv(n, block_n),)](
        a, b, c, m, n, k, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=8, num_warps=warps, num_stages=stages
    )


def warpgroups(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    _bytes.launch(WARPGROUPS["matmul_warpgroups_tf32"], c, a, b)


FLOAT32 = (torch.float32,)
RUNGS: tuple[Rung, ...] = (
    make_rung(HERE, "k01_wmma", "tensor cores through CUDA's fragments", wmma, dtypes=FLOAT32, limits=wmma_limits),
    make_rung(HERE, "k02_mma_sync", "swizzled slices by cp.async, products by mma.sync, any layout", mma_sync,
              dtypes=FLOAT32, limits=ampere, configs=configs, strided=True),
    make_rung(HERE, "k03_triton_tiled", "tiles in Triton, transposed", triton_tiled, dtypes=FLOAT32, limits=grid_of_tiles),
    make_rung(HERE, "k04_warpgroups", "Hopper: warpgroups cut floats to TF32 as they read them, B turned first", warpgroups,
              dtypes=FLOAT32, limits=_bytes.limits, devices=("cuda",), strided=True),
    make_rung(HERE, "k05_turned_in_registers", "Hopper: the factor that lies across K goes through registers, rounded by the copy engine",
              _turned.turned_in_registers, dtypes=FLOAT32, limits=_turned.limits, configs=_turned.configs, devices=("cuda",),
              strided=True),
    make_rung(HERE, "k06_skinny", "Hopper: few rows or few tiles, B's columns on the 64 rows of the matrix units, K divided; lines of B begin anywhere",
              _skinny.skinny, dtypes=FLOAT32, limits=_turned.limits, configs=_skinny.configs, devices=("cuda",), strided=True),
)  # fmt: skip


def default(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """On Hopper warpgroups, with K divided for few rows and where tiles do not fill the GPU; on older GPUs mma.sync; PyTorch for
    small products on Hopper whose A lies across K, for float64 and for a GPU older than Ampere."""
    if a.dtype != torch.float32 or ampere(a, b):
        return None
    if a.is_cuda and not _turned.limits(a, b):
        m, n, k = sizes(a, b)
        if a.stride(1) != 1 and m * n * k <= 512**3:  # turning A costs a launch
            return None
        return "k06_skinny" if _skinny.pays(a, b) else "k05_turned_in_registers"
    return "k02_mma_sync"
