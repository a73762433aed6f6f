"""The ladder of batched_matmul, slowest idea first."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import boxes, cluster_split_k
from warpwise.gemm.default import default_of
from warpwise.gemm.lazy import lazy_launch
from warpwise.gemm.limits import GRID_Y, grid_of_tiles, grid_y_limit, sizes_limit
from warpwise.gemm.operands import HALVES, KERNEL_DTYPES, Shape
from warpwise.gemm.persistent import batched_configs
from warpwise.operation import cdiv, make_rung
from warpwise.ops.batched_matmul import k05_warp_specialised, k06_overlapped_epilogue
from warpwise.ops.batched_matmul._shared import strides

HERE = Path(__file__).parent
NAIVE = cuda.load(HERE / "k01_naive.cu")


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    batch, m, n, k = Shape.of(a, b)
    kernel = NAIVE[f"batched_matmul_naive<{cuda.ctype(a.dtype)}>"]
    grid = cdiv(n, 32), cdiv(m, 8), min(batch, GRID_Y)
    kernel[grid, (32, 8)](cuda.strided(a), cuda.strided(b), cuda.out(c), batch, m, n, k, *strides(a), *strides(b))


def naive_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    shape = Shape.of(a, b)
    return grid_y_limit(shape.m, 8, "rows of a") or sizes_limit(**shape._asdict())


RUNGS = (
    make_rung(HERE, "k01_naive", "one thread per element, any strides", naive, dtypes=KERNEL_DTYPES,
              limits=naive_limits, strided=True),
    make_rung(HERE, "k03_triton_tiled", "tiles in Triton, any strides",
              lazy_launch(f"{__package__}.k03_triton_tiled"), dtypes=KERNEL_DTYPES, limits=grid_of_tiles, strided=True),
    make_rung(HERE, "k04_triton_descriptors", "operands by TMA; one loop over matrices, tiles and k",
              lazy_launch(f"{__package__}.k04_triton_descriptors"), dtypes=HALVES,
              limits=boxes.limits, configs=boxes.configs, strided=True),
    make_rung(HERE, "k05_warp_specialised",
              "Hopper: two blocks per SM, each with four producer warps and four consumer warps",
              k05_warp_specialised.launch, dtypes=(torch.float32,), limits=k05_warp_specialised.limits,
              configs=k05_warp_specialised.configs, strided=True),
    make_rung(HERE, "k06_overlapped_epilogue",
              "Hopper: the epilogue overlaps the products of the next tile or matrix", k06_overlapped_epilogue.launch,
              dtypes=HALVES, limits=k06_overlapped_epilogue.limits,
              configs=batched_configs, strided=True),
    cluster_split_k.rung(HERE, "k07_cluster_split_k", KERNEL_DTYPES),
)  # fmt: skip

default = default_of(
    RUNGS, "k06_overlapped_epilogue", "k05_warp_specialised", "k03_triton_tiled", "k07_cluster_split_k"
)
