"""The ladder of grouped_matmul, slowest idea first. No launcher reads the offsets: they stay on the device."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.gemm.default import first_of
from warpwise.gemm.lazy import lazy_launch
from warpwise.gemm.operands import HALVES, KERNEL_DTYPES
from warpwise.operation import Rung, make_rung
from warpwise.ops.grouped_matmul.forward import k03_warp_specialised
from warpwise.ops.grouped_matmul.forward._triton import (
    descriptors_configs,
    descriptors_limits,
    divides_k,
    launches_soon,
    tiled_configs,
    tiles_limits,
)

HERE = Path(__file__).parent
RUNGS: tuple[Rung, ...] = (
    make_rung(HERE, "k01_triton_tiled", "tiles in Triton, any strides, as many programs as any offsets may need",
              lazy_launch(f"{__package__}.k01_triton_tiled"), dtypes=KERNEL_DTYPES, limits=tiles_limits,
              configs=tiled_configs, strided=True),
    make_rung(HERE, "k02_triton_descriptors", "operands by TMA; one loop over groups, tiles and k",
              lazy_launch(f"{__package__}.k02_triton_descriptors"), dtypes=HALVES, limits=descriptors_limits,
              configs=descriptors_configs, strided=True),
    make_rung(HERE, "k03_warp_specialised",
              "Hopper, float32: batched_matmul's k03 over the tiles of all groups, which each block finds as it goes",
              k03_warp_specialised.launch, dtypes=(torch.float32,), limits=k03_warp_specialised.limits,
              configs=k03_warp_specialised.configs, strided=True),
)  # fmt: skip

_by_tma = first_of(RUNGS, "k02_triton_descriptors", "k01_triton_tiled")
_in_blocks = first_of(RUNGS, "k03_warp_specialised", "k01_triton_tiled")
_tiled = first_of(RUNGS, "k01_triton_tiled")


def default(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """k03 for float32 and k02 for 2-byte types, except where k01 is faster: in float32 it divides a deep K of few
    tiles, in 2-byte types it is done before k02's tensor maps are."""
    if a.dtype == torch.float32:
        return (_tiled if divides_k(a, b) else _in_blocks)(a, b, offsets)
    return (_tiled if launches_soon(a, b, offsets) else _by_tma)(a, b, offsets)
