"""The ladder of matmul_tf32, slowest idea first, with the launchers of k01 to k04."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import k_major
from warpwise.gemm import mma_sync as mma
from warpwise.gemm.limits import grid_of_tiles, shared_bytes
from warpwise.gemm.mma_sync import MmaConfig
from warpwise.gemm.operands import sizes
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops.matmul_tf32 import _skinny, _turned

HERE = Path(__file__).parent
WMMA = cuda.load(HERE / "k01_wmma.cu")
MMA_SYNC = cuda.load(HERE / "k02_mma_sync.cu")
WARPGROUPS = cuda.load(HERE / "k04_warpgroups.cu")

CONFIGS = (
    MmaConfig(256, 128, 64, 64, 128, 4, 1),
    MmaConfig(128, 256, 64, 64, 128, 4, 1),
    MmaConfig(128, 128, 64, 64, 128, 3, 2),
    MmaConfig(64, 128, 32, 64, 128, 3, 2),
    MmaConfig(64, 64, 32, 32, 64, 4, 4),
)


def wmma(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    # 128 x 128 a block, 32 x 64 a warp; 64 x 64 where large tiles would not fill the GPU.
    large = mma.fills_gpu(a, cdiv(m, 128) * cdiv(n, 128))
    side, tiles, threads = (128, "128, 128, 16, 32, 64", 256) if large else (64, "64, 64, 16, 32, 32", 128)
    aligned = k % 4 == 0 and n % 4 == 0 and a.data_ptr() % 16 == 0 and b.data_ptr() % 16 == 0
    kernel = WMMA[f"matmul_wmma<{tiles}, {str(aligned).lower()}>"]
    kernel[(cdiv(n, side), cdiv(m, side)), threads](a, b, cuda.out(c), m, n, k)


def configs(a: torch.Tensor, b: torch.Tensor) -> Sequence[str]:
    return mma.names(CONFIGS, a, b)


def mma_sync(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, config: str | None = None) -> None:
    mma.launch(MMA_SYNC, (), CONFIGS, False, c, a, b, config)


def triton_tiled(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.matmul_tf32.k03_triton_tiled import matmul_tiled

    m, n, k = sizes(a, b)
    large = cdiv(m, 256) * cdiv(n, 128) >= sm_count(a) and shared_bytes(a) >= 3 * 4 * 32 * (256 + 128)
    block_m, block_n, block_k, warps, stages = (256, 128, 32, 8, 3) if large else (64, 64, 32, 4, 4)
    matmul_tiled[(cdiv(m, block_m) * cdiv(n, block_n),)](
        a, b, c, m, n, k, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=8, num_warps=warps, num_stages=stages
    )


def warpgroups(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    k_major.launch(WARPGROUPS["matmul_warpgroups_tf32"], c, a, b)


FLOAT32 = (torch.float32,)
RUNGS: tuple[Rung, ...] = (
    make_rung(HERE, "k01_wmma", "tensor cores through wmma fragments", wmma, dtypes=FLOAT32, limits=mma.wmma_limits),
    make_rung(
        HERE,
        "k02_mma_sync",
        "swizzled stages by cp.async, mma.sync, any layout",
        mma_sync,
        dtypes=FLOAT32,
        limits=mma.limits,
        configs=configs,
        strided=True,
    ),
    make_rung(
        HERE, "k03_triton_tiled", "tiles in Triton, transposed", triton_tiled, dtypes=FLOAT32, limits=grid_of_tiles
    ),
    make_rung(
        HERE,
        "k04_warpgroups",
        "Hopper: wgmma truncates floats to TF32, B transposed first",
        warpgroups,
        dtypes=FLOAT32,
        limits=k_major.limits,
        devices=("cuda",),
        strided=True,
    ),
    make_rung(
        HERE,
        "k05_transposed_in_registers",
        "Hopper: the MN-major operand goes through registers, rounded to TF32 by TMA",
        _turned.transposed_in_registers,
        dtypes=FLOAT32,
        limits=_turned.limits,
        configs=_turned.configs,
        devices=("cuda",),
        strided=True,
    ),
    make_rung(
        HERE,
        "k06_skinny",
        "Hopper: few rows as wgmma's n, K divided; rows of B begin at any element",
        _skinny.skinny,
        dtypes=FLOAT32,
        limits=_turned.limits,
        configs=_skinny.configs,
        devices=("cuda",),
        strided=True,
    ),
)


def default(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The rung for sizes that no table covers: on Hopper k05, or k06 for few rows and few tiles; on older GPUs mma.sync.

    PyTorch for small products on Hopper with an MN-major A, for float64 and for GPUs older than Ampere.
    """
    if a.dtype != torch.float32 or mma.limits(a, b):
        return None
    if a.is_cuda and not _turned.limits(a, b):
        m, n, k = sizes(a, b)
        if a.stride(1) != 1 and m * n * k <= 512**3:  # transposing A costs a launch
            return None
        return "k06_skinny" if _skinny.is_profitable(a, b) else "k05_transposed_in_registers"
    return "k02_mma_sync"
