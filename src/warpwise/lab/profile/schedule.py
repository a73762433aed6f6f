"""The steps to record: wait, warm-up and active steps, repeated, as in ``torch.profiler.schedule``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

EXPECTED = (
    "expected wait,warm-up,active,repeat: four whole numbers such as 1,1,2,1, with active and repeat at least 1 "
    "and the others at least 0"
)


@dataclass(frozen=True)
class Schedule:
    """``wait`` steps are not recorded, ``warmup`` recorded and discarded, ``active`` kept; repeated ``repeat``
    times.
    """

    wait: int = 1
    warmup: int = 1
    active: int = 2
    repeat: int = 1

    def __post_init__(self) -> None:
        given = (self.wait, self.warmup, self.active, self.repeat)
        whole = all(isinstance(count, int) and not isinstance(count, bool) for count in given)
        if not whole or min(self.wait, self.warmup) < 0 or min(self.active, self.repeat) < 1:
            raise ValueError(f"schedule {','.join(str(count) for count in given)}: {EXPECTED}")

    @classmethod
    def of(cls, given: Schedule | Iterable[int] | str) -> Schedule:
        """A schedule from four numbers or their text ("1,1,2,1"). Raises ``ValueError`` for anything else."""
        if isinstance(given, Schedule):
            return given
        parts = given.split(",") if isinstance(given, str) else list(given)
        if len(parts) != 4:
            raise ValueError(f"schedule {given!r}: {EXPECTED}")
        if isinstance(given, str):
            try:
                parts = [int(part) for part in parts]
            except ValueError:
                raise ValueError(f"schedule {given!r}: {EXPECTED}") from None
        return cls(*parts)

    @property
    def steps(self) -> int:
        """The number of steps of the whole schedule."""
        return (self.wait + self.warmup + self.active) * self.repeat

    def __str__(self) -> str:
        return f"{self.wait},{self.warmup},{self.active},{self.repeat}"
