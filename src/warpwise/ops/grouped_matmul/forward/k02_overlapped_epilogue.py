"""The launcher of k02, its limits and configurations."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.device.limits import requires_hopper
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig, parsed
from warpwise.gemm.persistent import BATCHED
from warpwise.gemm.time_model import OVERLAPPED
from warpwise.operation import cdiv, sm_count
from warpwise.ops.grouped_matmul.forward._triton import tiles_limits

OVERLAPPED_EPILOGUE = cuda.load(Path(__file__).with_suffix(".cu"))
CONFIGS = (*(tile for tile in BATCHED if not tile.whole), *parsed("256x128x64_s4"))
ranked = OVERLAPPED.configs(lambda product: CONFIGS)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or configs(a, b, offsets)[0])
    (rows, k), (groups, _, n) = a.shape, b.shape
    b_k_major = boxes.is_transposed(b)
    maps = cuda.tensor_map(a, (64, 64)), cuda.tensor_map(b.mT if b_k_major else b, (1, 64, 64))
    tile_rows, columns = cdiv(rows, tile.m), cdiv(n, tile.n)
    blocks = min((tile_rows + groups) * columns, sm_count(a))
    kernel = f"grouped_matmul_overlapped_epilogue<{tile.parameters(a.dtype, not b_k_major)}>"
    OVERLAPPED_EPILOGUE[kernel][tile.launch(blocks)](
        *maps, cuda.out(c), offsets.contiguous(), groups, rows, n, k, columns, tile.raster_rows(tile_rows, blocks)
    )


def limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A Hopper GPU, matrices that TMA can address, contiguous rows of a: a box begins at any of its rows."""
    if b.shape[0] == 0:
        return "takes 1 group or more, not 0"
    if boxes.is_transposed(a):
        return f"takes a with contiguous rows, not strides {tuple(a.stride())}"
    return requires_hopper(a) or boxes.product_limit(a, b) or tiles_limits(a, b, offsets)


def configs(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every configuration, in the order estimated for groups of equal size."""
    return ranked(a[: cdiv(a.shape[0], max(1, b.shape[0]))], b)
