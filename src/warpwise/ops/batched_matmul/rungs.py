"""The ladder of batched_matmul, slowest idea first."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.gemm import boxes, cluster_split_k, simt
from warpwise.gemm.default import default_of
from warpwise.gemm.limits import grid_of_tiles
from warpwise.gemm.operands import HALVES, KERNEL_DTYPES
from warpwise.gemm.persistent import batched_configs
from warpwise.operation import lazy_launch, make_rung
from warpwise.ops.batched_matmul import k02_warp_specialised, k03_overlapped_epilogue

HERE = Path(__file__).parent
RUNGS = (
    make_rung(HERE, "k01_triton_tiled", "tiles in Triton, any strides",
              lazy_launch(f"{__package__}.k01_triton_tiled"), dtypes=KERNEL_DTYPES, limits=grid_of_tiles, strided=True),
    make_rung(HERE, "k02_warp_specialised",
              "Hopper: two blocks per SM, each with four producer warps and four consumer warps",
              k02_warp_specialised.launch, dtypes=(torch.float32,), limits=simt.limits,
              configs=k02_warp_specialised.configs, strided=True),
    make_rung(HERE, "k03_overlapped_epilogue",
              "Hopper: the epilogue overlaps the products of the next tile or matrix", k03_overlapped_epilogue.launch,
              dtypes=HALVES, limits=boxes.warpgroup_limit, configs=batched_configs, strided=True),
    cluster_split_k.rung(HERE, "k04_cluster_split_k", KERNEL_DTYPES),
)  # fmt: skip

default = default_of(
    RUNGS, "k03_overlapped_epilogue", "k02_warp_specialised", "k01_triton_tiled", "k04_cluster_split_k"
)
