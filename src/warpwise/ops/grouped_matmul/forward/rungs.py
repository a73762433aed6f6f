"""The ladder of grouped_matmul, slowest idea first. No launcher reads the offsets: they stay on the device."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.gemm.default import first_of
from warpwise.gemm.operands import HALVES, KERNEL_DTYPES
from warpwise.operation import Rung, lazy_launch, make_rung
from warpwise.ops.grouped_matmul.forward import k02_overlapped_epilogue, k03_warp_specialised
from warpwise.ops.grouped_matmul.forward._triton import divides_k, tiled_configs, tiles_limits

HERE = Path(__file__).parent
RUNGS: tuple[Rung, ...] = (
    make_rung(HERE, "k01_triton_tiled", "tiles in Triton, any strides, as many programs as any offsets may need",
              lazy_launch(f"{__package__}.k01_triton_tiled"), dtypes=KERNEL_DTYPES, limits=tiles_limits,
              configs=tiled_configs, strided=True),
    make_rung(HERE, "k02_overlapped_epilogue",
              "Hopper: the epilogue overlaps the products of the next tile, of any group",
              k02_overlapped_epilogue.launch, dtypes=HALVES, limits=k02_overlapped_epilogue.limits,
              configs=k02_overlapped_epilogue.configs, strided=True),
    make_rung(HERE, "k03_warp_specialised",
              "Hopper, float32: batched_matmul's k02 over the tiles of all groups, which each block finds as it goes",
              k03_warp_specialised.launch, dtypes=(torch.float32,), limits=k03_warp_specialised.limits,
              configs=k03_warp_specialised.configs, strided=True),
)  # fmt: skip

_in_boxes = first_of(RUNGS, "k02_overlapped_epilogue", "k03_warp_specialised", "k01_triton_tiled")
_tiled = first_of(RUNGS, "k01_triton_tiled")


def default(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """k02 for 2-byte types and k03 for float32, except few tiles of a deep K in float32, which k01 divides along K."""
    few_and_deep = a.dtype == torch.float32 and divides_k(a, b)
    return (_tiled if few_and_deep else _in_boxes)(a, b, offsets)
