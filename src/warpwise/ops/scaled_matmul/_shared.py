"""What the launchers of k04, k05 and k06 share: configurations, limits, and the launch of clusters of two blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.limits import requires_hopper, requires_k, size_limit
from warpwise.operation import cdiv, sm_count
from warpwise.ops.scaled_matmul._operands import contiguous_scales, k_major, l2_hints

CLUSTER_ROWS = 256  # two blocks with tiles of 128 rows


class Fp8Config(NamedTuple):
    """The columns of a tile, and pipeline stages of 128 of K."""

    columns: int
    stages: int

    @property
    def name(self) -> str:
        return f"128x{self.columns}x128_s{self.stages}"

    @property
    def shared(self) -> int:
        """Bytes of shared memory: alignment, the stages of A and B, C's boxes, barriers."""
        return 1024 + self.stages * (128 + self.columns) * 128 + 4 * 8192 + 16 * self.stages

    def time(self, m: int, n: int, processors: int) -> int:
        """Relative time: for each wave a tile's columns, and 16 for loads of A."""
        waves = cdiv(cdiv(m, CLUSTER_ROWS) * cdiv(n, self.columns), max(1, processors // 2))
        return waves * (self.columns + 16)


WIDE, NARROW = Fp8Config(256, 4), Fp8Config(128, 6)


def hopper_limits(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """A Hopper GPU. Operands that TMA cannot address are copied."""
    return requires_hopper(a) or requires_k(a.shape[1]) or size_limit(a, b)


def configs(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> Sequence[str]:
    """Both configurations, the faster by ``time`` first."""
    m, n, processors = a.shape[0], b.shape[1], sm_count(a)
    return [chosen.name for chosen in sorted((WIDE, NARROW), key=lambda chosen: chosen.time(m, n, processors))]


def tiled(module: cuda.Module, kernel: str) -> Callable[..., None]:
    """The launcher of a kernel that has both configurations."""

    def launch(
        c: torch.Tensor,
        a: torch.Tensor,
        b: torch.Tensor,
        scale_a: torch.Tensor,
        scale_b: torch.Tensor,
        *,
        config: str | None = None,
    ) -> None:
        chosen = WIDE if (config or configs(a, b, scale_a, scale_b)[0]) == WIDE.name else NARROW
        launch_clusters(module, kernel, f", {chosen.columns}, {chosen.stages}", chosen, c, a, b, scale_a, scale_b)

    return launch


def launch_clusters(
    module: cuda.Module,
    kernel: str,
    arguments: str,
    chosen: Fp8Config,
    c: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
) -> None:
    left, right = k_major(a, b)
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    if by_row and scale_b.data_ptr() % 8:  # read as float2
        scale_b = scale_b.clone()
    (m, k), n = left.shape, right.shape[0]
    by_map = n % 8 == 0  # TMA stores rows that begin on 16 bytes
    pairs, columns = cdiv(m, CLUSTER_ROWS), cdiv(n, chosen.columns)
    waves = cdiv(pairs * columns, max(1, sm_count(a) // 2))
    clusters = cdiv(pairs * columns, waves)  # the fewest that need no more waves
    map_a, map_b = cuda.tensor_map(left, (128, 128)), cuda.tensor_map(right, (chosen.columns // 2, 128))
    map_c, rows = (cuda.tensor_map(c, (64, 64)), None) if by_map else (map_a, cuda.out(c))
    flags = f"{str(by_row).lower()}, {str(by_map).lower()}"
    module[f"{kernel}<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}, {flags}{arguments}>"][
        2 * clusters, 384, chosen.shared
    ](map_a, map_b, map_c, rows, scale_a, scale_b, m, n, k, pairs, columns, 8, l2_hints(m, n, k))
