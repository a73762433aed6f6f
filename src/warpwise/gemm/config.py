"""The configuration of a GEMM kernel: its fields, its name, its launch geometry."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.device.limits import HOPPER_SHARED
from warpwise.operation import cdiv

BOX_BYTES = 64 * 64 * 2  # the box of C that a warpgroup stores by TMA

# The tokens of a name in their order: tag, field. The tile, m x n x k, has no tag. "rM" is a tile of M rows of A; the
# operands determine its other sizes. A field with its default value has no token.
_TAGS = {
    "w": "warps", "s": "stages", "c": "cluster", "k": "cluster_splits", "p": "splits",
    "n": "tile_rows", "f": "flat", "whole": "whole", "x": "products",
}  # fmt: skip
_READ = {**_TAGS, "": "tile", "r": "tile", "o": "splits"}  # o: splits in the names of earlier versions
_TOKEN = re.compile(r"_?([a-z]*)((?:\d+x)*\d+)?")
_FORM = "MxNxK" + "".join(f"[_{tag}...]" for tag in _TAGS)


class GemmConfig(NamedTuple):
    """A GEMM kernel's parameters. ``name`` and ``parse`` convert it to text and back: 128x256x64_s4_c2x1.

    For a kernel that computes C^T = B^T A^T (few rows of A), ``m`` is columns of C and ``n`` is rows of C.
    """

    m: int  # m x n: the tile of C that a block computes; k: of a pipeline stage
    n: int = 0
    k: int = 0
    stages: int = 0  # of the pipeline
    warps: tuple[int, ...] = ()  # rows and columns of a warp's tile, the warps that divide its K; or a block's warps
    cluster: tuple[int, ...] = ()  # blocks of a cluster along m and n, which multicast the operand that they share
    cluster_splits: int = 1  # blocks of a cluster that divide K and reduce through distributed shared memory
    splits: int = 1  # of K, reduced through global memory
    tile_rows: int = 0  # number of tile rows that cover C, if their height varies; of tile columns, if their width does
    flat: bool = False  # one more tile row, half as high and twice as wide
    whole: bool = False  # C's tile has its own shared memory and is stored at once, not box by box
    products: int = 1  # 3: three TF32 products for each float32 product

    @property
    def name(self) -> str:
        """The tile, and one token for each other field whose value is not the default."""
        words = ["x".join(map(str, self[:3])) if self.n else f"r{self.m}"]
        for tag, field in _TAGS.items():
            if (value := getattr(self, field)) != self._field_defaults[field]:
                words.append(tag + ("" if value is True else "x".join(map(str, _tuple(value)))))
        return "_".join(words)

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def parse(name: str, op: str = "matmul") -> GemmConfig:
        """The configuration called ``name``. Raises ``ValueError`` for a name of another form."""
        found: dict[str, Any] = {}
        for tag, numbers in _TOKEN.findall(name):
            field = _READ.get(tag)
            values = tuple(map(int, numbers.split("x"))) if numbers else (True,)
            if field == "tile" and len(values) == (1 if tag else 3):
                found |= zip("mnk", values, strict=False)
            elif field and field != "tile":
                found[field] = values if field in ("warps", "cluster") else values[0]
            elif tag or numbers:
                found = {}
                break
        if "m" not in found or _TOKEN.sub("", name):
            raise ValueError(f"{op}: expected a configuration of the form {_FORM}, got {name!r}")
        return GemmConfig(**found)

    @property
    def cluster_shape(self) -> tuple[int, int]:
        """Blocks of a cluster along the rows and the columns of C."""
        down, across = (*self.cluster, 1, 1)[:2]
        return down, across

    @property
    def blocks(self) -> int:
        """Blocks of a cluster that compute different tiles."""
        return math.prod(self.cluster)

    @property
    def warpgroup_grid(self) -> tuple[int, int]:
        """Consumer warpgroups along the rows and columns of a tile; each computes half of the rows or columns."""
        return (2, 1) if self.m > 64 else (1, min(2, self.n // 64))

    @property
    def warpgroups(self) -> int:
        """Consumer warpgroups of a block."""
        return math.prod(self.warpgroup_grid)

    @property
    def threads(self) -> int:
        """Threads of a block whose warps each compute a tile of ``warps``."""
        return 32 * (self.m // self.warps[0]) * (self.n // self.warps[1]) * self.k_groups

    @property
    def k_groups(self) -> int:
        """Warps that divide the K of a warp's tile."""
        return self.warps[2] if len(self.warps) > 2 else 1

    def ring_bytes(self, size: int, alignment: int = 1024, barriers: int = 16, padding: int = 0) -> int:
        """Bytes of shared memory: alignment, and the stages of A and B, of elements of ``size`` bytes, with their
        barriers."""
        return alignment + self.stages * ((self.m + self.n + padding) * self.k * size + barriers)

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a kernel of ``sm90/gemm.cuh``, whose k-tiles span 128 bytes: the stages, and for C
        the tile if ``whole``, else two boxes per warpgroup if they fit, else one."""
        whole_boxes = self._replace(n=cdiv(self.n, 64) * 64)
        ring, boxes = whole_boxes.ring_bytes(128 // self.k), self.warpgroups * BOX_BYTES
        return ring + (2 * self.m * self.n if self.whole else 2 * boxes if ring + 2 * boxes <= HOPPER_SHARED else boxes)

    def parameters(self, dtype: torch.dtype, *flags: bool) -> str:
        """The template arguments of a kernel of ``sm90/gemm.cuh``, without a cluster those of ``gemm_batched.cuh``."""
        numbers = (self.m, self.n, *self.warpgroup_grid, self.stages, *self.cluster)
        return ", ".join((cuda.ctype(dtype), *map(str, numbers), *(str(flag).lower() for flag in flags)))

    def launch(self, clusters: int) -> tuple[int, int, int]:
        """Blocks, threads and bytes of shared memory of ``clusters`` clusters of a warp-specialised kernel."""
        return clusters * self.blocks, 128 * (1 + self.warpgroups), self.shared

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Rows and columns of cluster tiles in C."""
        down, across = self.cluster_shape
        return cdiv(m, self.m * down), cdiv(n, self.n * across)

    def raster_rows(self, rows: int, clusters: int) -> int:
        """The tile rows, of ``rows``, of a raster group: ``clusters`` that run at once cover about a square of C."""
        down, across = self.cluster_shape
        return min(max(1, round(math.sqrt(clusters * self.n * across / (self.m * down)))), rows)

    def clusters(self, tiles: int, sms: int) -> int:
        """The smallest number of persistent clusters with the same number of waves as if all ``sms`` SMs were used."""
        most = max(1, sms // self.blocks)
        return cdiv(tiles, cdiv(tiles, most))

    @property
    def triton(self) -> dict[str, int]:
        """The constants and options of a Triton kernel's launch."""
        tile = {"BLOCK_M": self.m, "BLOCK_N": self.n, "BLOCK_K": self.k}
        return {**tile, "num_warps": self.warps[0], "num_stages": self.stages}


def _tuple(value: Any) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


def names(configs: Iterable[GemmConfig]) -> tuple[str, ...]:
    return tuple(config.name for config in configs)


def parsed(*names: str) -> tuple[GemmConfig, ...]:
    """The configurations of these names."""
    return tuple(map(GemmConfig.parse, names))
