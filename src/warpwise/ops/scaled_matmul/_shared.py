"""What the launchers of k04 and k05 share: configurations, limits, and the launch of clusters of two blocks."""

from __future__ import annotations

from collections.abc import Callable

import torch

from warpwise import cuda
from warpwise.gemm.config import BOX_BYTES, GemmConfig, chosen, parsed
from warpwise.gemm.limits import requires_hopper, requires_k, size_limit
from warpwise.gemm.operands import flags
from warpwise.operation import cdiv, sm_count
from warpwise.ops.scaled_matmul._operands import contiguous_scales, k_major, l2_hints
from warpwise.ops.scaled_matmul.model import FAMILIES

# Clusters of two blocks, one above the other, with tiles of 128 rows.
WIDE, NARROW = CONFIGS = parsed("128x256x128_s4", "128x128x128_s6")


def hopper_limits(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """A Hopper GPU. Operands that TMA cannot address are copied."""
    return requires_hopper(a) or requires_k(a.shape[1]) or size_limit(a, b)


configs_of = FAMILIES["k05_two_k_tile_promotion"].configs(lambda product: CONFIGS)


def launcher(module: cuda.Module, kernel: str, *configs: GemmConfig) -> Callable[..., None]:
    """The launcher of a kernel of one configuration, which it has built in, or of a template of several."""

    def launch(
        c: torch.Tensor,
        a: torch.Tensor,
        b: torch.Tensor,
        scale_a: torch.Tensor,
        scale_b: torch.Tensor,
        *,
        config: str | None = None,
    ) -> None:
        if len(configs) == 1:
            tile, arguments = configs[0], ""
        else:
            tile = chosen("scaled_matmul", config or configs_of(a, b, scale_a, scale_b)[0], configs)
            arguments = f", {tile.n}, {tile.stages}"
        left, right = k_major(a, b)
        scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
        if by_row and scale_b.data_ptr() % 8:  # read as float2
            scale_b = scale_b.clone()
        (m, k), n = left.shape, right.shape[0]
        by_map = n % 8 == 0  # TMA stores rows that begin on 16 bytes
        pairs, columns = cdiv(m, 2 * tile.m), cdiv(n, tile.n)
        waves = cdiv(pairs * columns, max(1, sm_count(a) // 2))
        clusters = cdiv(pairs * columns, waves)  # the fewest that need no more waves
        map_a, map_b = cuda.tensor_map(left, (128, 128)), cuda.tensor_map(right, (tile.n // 2, 128))
        map_c, rows = (cuda.tensor_map(c, (64, 64)), None) if by_map else (map_a, cuda.out(c))
        module[f"{kernel}<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}, {flags(by_row, by_map)}{arguments}>"][
            2 * clusters, 384, tile.ring_bytes(1) + 4 * BOX_BYTES
        ](map_a, map_b, map_c, rows, scale_a, scale_b, m, n, k, pairs, columns, 8, l2_hints(m, n, k))

    return launch
