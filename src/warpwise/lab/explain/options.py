"""How a launch is explained: target, number of blocks, time limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from warpwise.device import Profile

BUDGET = 5.0
Blocks = int | Literal["all"] | None


@dataclass(frozen=True)
class Options:
    """Options of ``explain``. With ``keep``, the arguments keep the outputs, as after a launch."""

    target: str | None = None
    blocks: Blocks = None
    budget: float = BUDGET
    checks: str = "all"
    timeout: float = 60.0
    keep: bool = False

    def __post_init__(self) -> None:
        if self.blocks is not None and self.blocks != "all" and not (isinstance(self.blocks, int) and self.blocks > 0):
            raise ValueError(f"explain: blocks={self.blocks!r}: expected a number of blocks, 'all' or None")
        if not self.budget > 0:
            raise ValueError(f"explain: budget={self.budget!r}: expected seconds above 0")
        if self.target is not None:
            Profile.of(self.target)
