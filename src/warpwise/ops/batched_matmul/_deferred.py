"""The launcher of k06, Hopper's kernel for two bytes whose tiles leave under the next one's products."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.ops import _boxes
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops.batched_matmul.spec import sizes
from warpwise.ops.matmul._hopper import DEPTH, ring_bytes, shared_bytes

DEFERRED = cuda.load(Path(__file__).parent / "k06_deferred_stores.cu")
# Of an SM and clock: multiply-adds, bytes from L2, bytes to DRAM while all SMs write; clocks of a tile besides.
PRODUCTS, FROM_L2, TO_DRAM, BESIDES = 2048, 46, 14, 1000


class Cut(NamedTuple):
    """A block's tile of C, the warpgroups along its rows and columns, slices in the ring, and whether tiles leave at once."""

    rows: int
    columns: int
    groups: tuple[int, int]
    stages: int
    at_once: bool = False

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.columns}x{DEPTH}_s{self.stages}{'_whole' if self.at_once else ''}"

    @property
    def warpgroups(self) -> int:
        """Those that multiply."""
        return self.groups[0] * self.groups[1]

    @property
    def shared(self) -> int:
        """Bytes of shared memory: to align, the ring, barriers, and a tile of C, or one or two boxes a warpgroup, as they fit."""
        if self.at_once:
            return ring_bytes(self.rows, self.columns, self.stages) + 2 * self.rows * self.columns
        return shared_bytes(self.rows, self.columns, self.stages, self.warpgroups)

    @property
    def threads(self) -> int:
        return 128 * (1 + self.warpgroups)

    def template(self, dtype: torch.dtype) -> str:
        """The kernel's first parameters in C++."""
        return ", ".join((cuda.ctype(dtype), *map(str, (self.rows, self.columns, *self.groups, self.stages))))

    def grid(self, batch: int, m: int, n: int, processors: int) -> tuple[int, int, int, int]:
        """Blocks; rows and columns of a matrix in tiles; how many rows of tiles go together: so that what is in flight
        is square, or nearly along C's rows where writing is all."""
        rows, columns = cdiv(m, self.rows), cdiv(n, self.columns)
        blocks = min(batch * rows * columns, processors)
        together = 2 if self.at_once else round(math.sqrt(blocks * self.columns / self.rows))
        return blocks, rows, columns, max(1, min(rows, together))

    def clocks(self, batch: int, m: int, n: int, k: int, processors: int) -> float:
        """About what the busiest SM takes: products, slices' way from L2, or sums' way to DRAM, whichever is longest."""
        rounds = cdiv(batch * cdiv(m, self.rows) * cdiv(n, self.columns), processors)
        products = self.rows * self.columns * DEPTH / PRODUCTS
        arriving = (self.rows + self.columns) * 2 * DEPTH / FROM_L2
        leaving = 2 * self.rows * self.columns / TO_DRAM
        return rounds * (max(cdiv(k, DEPTH) * max(products, arriving), leaving) + BESIDES / (2 if self.at_once else 1))


CUTS = (
    Cut(128, 256, (2, 1), 3, at_once=True),
    Cut(128, 256, (2, 1), 4),
    Cut(128, 128, (2, 1), 6),
    Cut(64, 256, (1, 2), 5),
    Cut(64, 128, (1, 2), 8),
    Cut(64, 64, (1, 1), 8),
)
_NAMED = {cut.name: cut for cut in CUTS}


def named(name: str) -> Cut:
    """The cut called ``name``."""
    return _NAMED[name]


@functools.lru_cache(maxsize=1024)
def ranked(batch: int, m: int, n: int, k: int, processors: int) -> tuple[str, ...]:
    """The names of all cuts, the fastest as ``Cut.clocks`` has it first; tiles leave at once where sums are two slices at most."""
    cuts = [cut for cut in CUTS if not cut.at_once or k <= 2 * DEPTH]
    return tuple(cut.name for cut in sorted(cuts, key=lambda cut: cut.clocks(batch, m, n, k, processors)))


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    return ranked(*sizes(a, b), multiprocessors(a))


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    if reason := not_hopper(a):
        return reason
    if b.shape[-1] % 8:
        return f"takes n in multiples of 8, so that rows of C begin on 16 bytes, not {b.shape[-1]}"
    return _boxes.boxable("a", a) or _boxes.boxable("b", b)


def described(factor: torch.Tensor) -> tuple[Any, bool, int]:
    """A map of ``factor`` (matrices, rows, columns) in boxes of 64 x 64, whether of the transposes, and 0 if all products
    share one matrix, else 1."""
    matrices = factor if factor.dim() == 3 else factor[None]
    one = matrices.shape[0] == 1 or matrices.stride(0) == 0
    turned = _boxes.turned(factor)
    lines = matrices.mT if turned else matrices
    count, rows, columns = lines.shape
    pitch = lines.stride(1)
    lines = lines.as_strided((1 if one else count, rows, columns), (pitch if one else lines.stride(0), pitch, 1))
    return cuda.tensor_map(lines, (1, 64, 64)), turned, int(not one)


def deferred_stores(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    batch, m, n, k = sizes(a, b)
    cut = named(config or configs(a, b)[0])
    (map_a, a_across, a_step), (map_b, b_by_columns, b_step) = described(a), described(b)
    flags = ", ".join(str(flag).lower() for flag in (cut.at_once, a_across, not b_by_columns))
    kernel = DEFERRED[f"batched_matmul_deferred_stores<{cut.template(a.dtype)}, {flags}>"]
    blocks, rows, columns, group = cut.grid(batch, m, n, multiprocessors(a))
    kernel[blocks, cut.threads, cut.shared](
        map_a, map_b, cuda.tensor_map(c, (1, 64, 64)), a_step, b_step, batch, k, rows, columns, group
    )
