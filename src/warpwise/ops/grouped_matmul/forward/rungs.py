"""The ladder of grouped_matmul, slowest idea first. No launcher reads the offsets: they stay on the device."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.default import first_of
from warpwise.gemm.lazy import lazy_launch
from warpwise.gemm.operands import HALVES, KERNEL_DTYPES
from warpwise.operation import Rung, make_rung
from warpwise.ops.grouped_matmul.forward._triton import (
    descriptors_configs,
    descriptors_limits,
    tiles_limits,
)

HERE = Path(__file__).parent
RUNGS: tuple[Rung, ...] = (
    make_rung(HERE, "k01_triton_tiled", "tiles in Triton, any strides, as many programs as any offsets may need",
              lazy_launch(f"{__package__}.k01_triton_tiled"), dtypes=KERNEL_DTYPES, limits=tiles_limits,
              strided=True),
    make_rung(HERE, "k02_triton_descriptors", "operands by TMA; one loop over groups, tiles and k",
              lazy_launch(f"{__package__}.k02_triton_descriptors"), dtypes=HALVES, limits=descriptors_limits,
              configs=descriptors_configs, strided=True),
)  # fmt: skip

default = first_of(RUNGS, "k02_triton_descriptors", "k01_triton_tiled")
