"""The launchers of Hopper's kernels: the copy engine, warpgroup products, clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops.scaled_matmul._operands import HERE, along_k, hints, scales, too_large

WARPGROUPS = cuda.load(HERE / "k04_warpgroups.cu")
TWO_SLICES = cuda.load(HERE / "k05_two_slices.cu")
PARTS = cuda.load(HERE / "k06_parts_in_flight.cu")
CLUSTER_ROWS = 256  # two blocks with tiles of 128 rows


class Tiling(NamedTuple):
    """Columns of a tile, and slices of 128 in flight."""

    columns: int
    stages: int

    @property
    def name(self) -> str:
        return f"128x{self.columns}x128_s{self.stages}"

    @property
    def shared(self) -> int:
        """Bytes of shared memory: alignment, the slices of A and B, C on its way, barriers."""
        return 1024 + self.stages * (128 + self.columns) * 128 + 4 * 8192 + 16 * self.stages

    def time(self, m: int, n: int, processors: int) -> int:
        """How long a product takes: columns of tiles one after the other, and 16 each for what A costs besides."""
        rounds = cdiv(cdiv(m, CLUSTER_ROWS) * cdiv(n, self.columns), max(1, processors // 2))
        return rounds * (self.columns + 16)


WIDE, NARROW = Tiling(256, 4), Tiling(128, 6)


def warpgroups(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    _launch(WARPGROUPS, "scaled_matmul_warpgroups", "", WIDE, c, a, b, scale_a, scale_b)


def configs(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> Sequence[str]:
    """Both tilings, the one that leaves fewer SMs idle first."""
    m, n, processors = a.shape[0], b.shape[1], multiprocessors(a)
    return [tiling.name for tiling in sorted((WIDE, NARROW), key=lambda tiling: tiling.time(m, n, processors))]


def tiled(module: cuda.Module, kernel: str) -> Callable[..., None]:
    """A launch of a kernel that has both tilings."""

    def launch(
        c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
        *, config: str | None = None,
    ) -> None:  # fmt: skip
        tiling = WIDE if (config or configs(a, b, scale_a, scale_b)[0]) == WIDE.name else NARROW
        _launch(module, kernel, f", {tiling.columns}, {tiling.stages}", tiling, c, a, b, scale_a, scale_b)

    return launch


def _launch(
    module: cuda.Module, kernel: str, arguments: str, tiling: Tiling,
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor,
) -> None:  # fmt: skip
    left, right = along_k(a, b)
    scale_a, scale_b, by_row = scales(scale_a, scale_b)
    if by_row and scale_b.data_ptr() % 8:  # they are read in twos
        scale_b = scale_b.clone()
    (m, k), n = left.shape, right.shape[0]
    by_map = n % 8 == 0  # the copy engine writes rows that begin on 16 bytes
    pairs, columns = cdiv(m, CLUSTER_ROWS), cdiv(n, tiling.columns)
    rounds = cdiv(pairs * columns, max(1, multiprocessors(a) // 2))
    clusters = cdiv(pairs * columns, rounds)  # the fewest that need no more rounds
    of_a, of_b = cuda.tensor_map(left, (128, 128)), cuda.tensor_map(right, (tiling.columns // 2, 128))
    of_c, rows = (cuda.tensor_map(c, (64, 64)), None) if by_map else (of_a, cuda.out(c))
    flags = f"{str(by_row).lower()}, {str(by_map).lower()}"
    module[f"{kernel}<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}, {flags}{arguments}>"][
        2 * clusters, 384, tiling.shared
    ](of_a, of_b, of_c, rows, scale_a, scale_b, m, n, k, pairs, columns, 8, hints(m, n, k))


two_slices = tiled(TWO_SLICES, "scaled_matmul_two_slices")
parts_in_flight = tiled(PARTS, "scaled_matmul_parts")


def hopper(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """The limits of k04 to k06: a Hopper GPU. Rows that the copy engine cannot address are copied first."""
    return not_hopper(a) or too_large(a, b)
