"""The ladder of grouped_matmul_backward, slowest idea first. No launcher reads the offsets."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.default import first_of
from warpwise.gemm.operands import HALVES, KERNEL_DTYPES
from warpwise.operation import Rung, lazy_launch, make_rung
from warpwise.ops.grouped_matmul.backward import k02_overlapped_epilogue
from warpwise.ops.grouped_matmul.backward.k02_overlapped_epilogue import tiles_limits

HERE = Path(__file__).parent
RUNGS: tuple[Rung, ...] = (
    make_rung(HERE, "k01_triton_tiled", "tiles in Triton, any strides",
              lazy_launch(f"{__package__}.k01_triton_tiled"), dtypes=KERNEL_DTYPES, limits=tiles_limits,
              strided=True),
    make_rung(HERE, "k02_overlapped_epilogue",
              "Hopper: boxes clipped where a group begins; the epilogue overlaps the next tile's products",
              k02_overlapped_epilogue.launch, dtypes=HALVES, limits=k02_overlapped_epilogue.limits,
              configs=k02_overlapped_epilogue.configs, strided=True),
)  # fmt: skip

default = first_of(RUNGS, "k02_overlapped_epilogue", "k01_triton_tiled")
