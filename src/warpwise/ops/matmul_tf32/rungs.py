"""The ladder of matmul_tf32, slowest idea first."""

from __future__ import annotations

import functools
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import cluster_split_k, mma_sync
from warpwise.gemm.default import default_of
from warpwise.operation import Rung, make_rung
from warpwise.ops.matmul_tf32 import k02_mma_sync, k05_transposed_in_registers, k06_skinny
from warpwise.ops.matmul_tf32._shared import limits

HERE = Path(__file__).parent
CLUSTER_SPLIT_K = cuda.load(HERE / "k07_cluster_split_k.cu")
WMMA = cuda.load(HERE / "k01_wmma.cu")


def wmma(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    mma_sync.launch_wmma(WMMA, (), 16, c, a, b)


FLOAT32 = (torch.float32,)
RUNGS: tuple[Rung, ...] = (
    make_rung(HERE, "k01_wmma", "tensor cores through wmma fragments", wmma, dtypes=FLOAT32,
              limits=mma_sync.wmma_limits),
    make_rung(HERE, "k02_mma_sync", "swizzled stages by cp.async, mma.sync, any layout", k02_mma_sync.launch,
              dtypes=FLOAT32, limits=mma_sync.limits, configs=k02_mma_sync.configs, strided=True),
    make_rung(HERE, "k05_transposed_in_registers",
              "Hopper: the MN-major operand goes through registers, rounded to TF32 by TMA",
              k05_transposed_in_registers.launch, dtypes=FLOAT32, limits=limits,
              configs=k05_transposed_in_registers.configs, strided=True),
    make_rung(HERE, "k06_skinny", "Hopper: few rows as wgmma's n, K divided; rows of B begin at any element",
              k06_skinny.launch, dtypes=FLOAT32, limits=limits, configs=k06_skinny.configs,
              strided=True),
    make_rung(HERE, "k07_cluster_split_k", "few tiles: the blocks of a cluster divide K; any layout and alignment",
              cluster_split_k.launcher(CLUSTER_SPLIT_K, tf32=True), dtypes=FLOAT32,
              limits=cluster_split_k.limits, configs=functools.partial(cluster_split_k.configs, tf32=True),
              strided=True),
)  # fmt: skip

default = default_of(RUNGS, "k05_transposed_in_registers", "k02_mma_sync", "k07_cluster_split_k")
