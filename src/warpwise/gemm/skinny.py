"""What GEMM kernels for few rows or few tiles share: tiles with K divided, and the number of resident clusters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from typing_extensions import Self

from warpwise.gemm.config import config_numbers

BOX = 64  # 2-byte elements in 128 bytes, a swizzled row
Config = TypeVar("Config", bound="SkinnyTile")


@dataclass(frozen=True)
class SkinnyTile:
    """A tile of ``columns`` of B x ``rows`` of A, ``depth`` of K in each of ``stages`` pipeline stages.

    ``split`` blocks of a cluster divide K and reduce through distributed shared memory; ``outer`` clusters divide it
    once more and reduce through global memory.
    """

    columns: int
    rows: int
    depth: int
    stages: int
    split: int = 1
    outer: int = 1

    op: ClassVar[str]
    form: ClassVar[re.Pattern[str]]  # of a configuration's name: the fields in their order

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}x{self.depth}_s{self.stages}_k{self.split}_o{self.outer}"

    @classmethod
    def named(cls, name: str) -> Self:
        """The configuration called ``name``. Raises ``ValueError`` for a name of another form."""
        return cls(*config_numbers(cls.op, name, cls.form))


def resident_clusters(blocks: int, processors: int) -> int:
    """Clusters of ``blocks`` that run at once: 30 of four and 15 of eight on an H200's 132 SMs."""
    return max(1, processors // blocks if blocks <= 2 else processors * 10 // (11 * blocks))
