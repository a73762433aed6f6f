"""Code that the launchers of k04 and k05 share: configurations, limits, and the launch of clusters of two blocks."""

from __future__ import annotations

from collections.abc import Callable

import torch

from warpwise import cuda
from warpwise.gemm import limits
from warpwise.gemm.config import GemmConfig, chosen, parsed
from warpwise.gemm.operands import ALIGNMENT, flags
from warpwise.gemm.padding import k_major_operands
from warpwise.operation import cdiv, sm_count
from warpwise.ops.scaled_matmul.tables import FAMILIES

MAX_TRANSPOSED = 128 * 65535  # rows that the transposing kernel takes
LARGE, SMALL = parsed("128x128x128_w8_s4", "64x64x128_w4_s4")  # tiles of k02


def contiguous_operands(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """a as (M, K) and b as (N, K), contiguous: no copies where a is row-major and b column-major."""
    return a.contiguous(), b.t().contiguous()


def contiguous_scales(scale_a: torch.Tensor, scale_b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Both scales contiguous, and True if there is one for each row of a and column of b."""
    return scale_a.contiguous(), scale_b.contiguous(), scale_a.dim() == 2


def l2_hints(m: int, n: int, k: int) -> int:
    """L2 eviction policies as in policies.cuh: evict-first for both operands, unless they are smaller than C."""
    return 5 if (m + n) * k >= 2 * m * n else 0


def aligned(matrix: torch.Tensor) -> torch.Tensor:
    """A contiguous ``matrix`` that begins on 16 bytes: itself or a copy."""
    return matrix if matrix.data_ptr() % ALIGNMENT == 0 else matrix.clone()


def k_major(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """a as (M, K) and b as (N, K), K-major with rows that begin on 16 bytes: in place or copied."""
    if a.shape[1] == 0 or a.shape[1] > MAX_TRANSPOSED:
        left, right = contiguous_operands(a, b)
        return aligned(left), aligned(right)
    left, right = k_major_operands(a.view(torch.int8), b.t().view(torch.int8))
    return left.view(a.dtype), right.view(b.dtype)


def tile_of(a: torch.Tensor, b: torch.Tensor) -> GemmConfig:
    """Large tiles if they fill the GPU, else small ones."""
    fills = cdiv(a.shape[0], 128) * cdiv(b.shape[1], 128) >= sm_count(a)
    return LARGE if fills and not a.is_cpu else SMALL


def grid_of_tiles(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    if a.is_cuda and torch.cuda.get_device_capability(a.device) < (8, 9):
        return "takes a GPU of compute capability 8.9 or above, for which Triton has float8_e4m3fn"
    return limits.grid_of_tiles(a, b)


# Clusters of two blocks, one above the other, with tiles of 128 rows.
WIDE, NARROW = CONFIGS = parsed("128x256x128_s4", "128x128x128_s6")


configs_of = FAMILIES["k05_two_k_tile_promotion"].configs(lambda product: CONFIGS)


def launcher(module: cuda.Module, kernel: str, *configs: GemmConfig) -> Callable[..., None]:
    """The launcher of a kernel with one fixed configuration, or of a template with several."""

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
        pairs, columns = (tile := tile._replace(cluster=(2, 1))).tiles(m, n)
        geometry = tile.launch(tile.clusters(pairs * columns, sm_count(a)))
        map_a, map_b = cuda.tensor_map(left, (128, 128)), cuda.tensor_map(right, (tile.n // 2, 128))
        map_c, rows = (cuda.tensor_map(c, (64, 64)), None) if by_map else (map_a, cuda.out(c))
        name = f"{kernel}<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}, {flags(by_row, by_map)}{arguments}>"
        module[name][geometry](
            map_a, map_b, map_c, rows, scale_a, scale_b, m, n, k, pairs, columns, 8, l2_hints(m, n, k)
        )

    return launch
