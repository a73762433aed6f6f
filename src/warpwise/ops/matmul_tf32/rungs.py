"""The ladder of matmul_tf32, slowest idea first."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import cluster_split_k, mma_sync
from warpwise.gemm.config import parsed
from warpwise.gemm.default import default_of
from warpwise.gemm.limits import hopper_limits
from warpwise.gemm.time_model import MMA_TF32
from warpwise.operation import Rung, make_rung
from warpwise.ops.matmul_tf32 import k02_transposed_in_registers, k03_skinny

HERE = Path(__file__).parent
MMA_SYNC = mma_sync.MmaSync(
    cuda.load(HERE / "k01_mma_sync.cu"),
    parsed(
        "256x128x128_w64x64_s4", "128x256x128_w64x64_s4", "128x128x128_w64x64_s3", "64x128x128_w32x64_s3",
        "64x64x64_w32x32_s4",
    ),
)  # fmt: skip
FLOAT32 = (torch.float32,)
RUNGS: tuple[Rung, ...] = (
    make_rung(HERE, "k01_mma_sync", "swizzled stages by cp.async, mma.sync, any layout", MMA_SYNC.launch,
              dtypes=FLOAT32, limits=mma_sync.limits, configs=MMA_SYNC.configs, strided=True),
    make_rung(HERE, "k02_transposed_in_registers",
              "Hopper: the MN-major operand goes through registers, rounded to TF32 by TMA",
              k02_transposed_in_registers.launch, dtypes=FLOAT32, limits=hopper_limits,
              configs=k02_transposed_in_registers.configs, strided=True),
    make_rung(HERE, "k03_skinny", "Hopper: few rows as wgmma's n, K divided; rows of B begin at any element",
              k03_skinny.launch, dtypes=FLOAT32, limits=hopper_limits, configs=k03_skinny.configs,
              strided=True),
    cluster_split_k.rung(HERE, "k04_cluster_split_k", FLOAT32, tf32=True),
)  # fmt: skip

default = default_of(RUNGS, "k02_transposed_in_registers", "k01_mma_sync", "k04_cluster_split_k")
FAMILIES = {  # for the model of the time
    "k02_transposed_in_registers": k02_transposed_in_registers.FAMILY,
    "k03_skinny": k03_skinny.FAMILY,
    "k04_cluster_split_k": MMA_TF32,
}
