"""``Hint``, and the ``LaunchAnalysis`` that the rules examine."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Literal

import numpy as np

from warpwise.lab.explain.model.hardware import Hardware
from warpwise.lab.explain.model.metrics import CounterTable
from warpwise.lab.explain.model.occupancy import Occupancy
from warpwise.lab.explain.model.time_model import Prediction
from warpwise.machine.counts import Counts, Sample

WORTH = 1.05  # the smallest speed-up of an "OPT" hint
Place = tuple[str, int]


@dataclass(frozen=True)
class Hint:
    """One hint on a launch, in the manner of Nsight Compute.

    ``kind`` is "OPT" for an optimisation and "INF" for information. ``speedup`` is the estimated factor of the whole
    launch's time, or None; ``metric`` and ``value`` are the number behind it, ``file`` and ``line`` the source line (0:
    the whole launch). ``idea`` is a change to try.
    """

    kind: Literal["OPT", "INF"]
    title: str
    text: str
    speedup: float | None = None
    metric: str = ""
    value: float = 0.0
    file: str = ""
    line: int = 0
    idea: str = ""

    def __str__(self) -> str:
        gain = f" (estimated {self.speedup:.1f}x)" if self.speedup and self.kind == "OPT" else ""
        place = f"{PurePath(self.file).name}:{self.line}: " if self.line else ""
        return f"{self.kind} {self.title}: {place}{self.text}{' ' + self.idea if self.idea else ''}{gain}"


@dataclass(frozen=True)
class LaunchAnalysis:
    """A launch's counters and prediction. ``lines`` are ``line_metrics``, ``source`` maps files to their lines of
    text.
    """

    counts: Counts
    lines: Mapping[Place, Mapping[str, float]]
    occupancy: Occupancy
    prediction: Prediction
    hardware: Hardware
    source: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def table(self) -> CounterTable:
        """The counters, with masks by opcode and kind of access."""
        return CounterTable(self.counts)

    def places(self, chosen: np.ndarray) -> dict[Place, np.ndarray]:
        """The instructions of a mask that were executed, as one mask for each source line."""
        found: dict[Place, np.ndarray] = {}
        executed = self.counts.column("executed")
        for i in np.flatnonzero(chosen & (executed > 0)):
            instruction = self.counts.program.instructions[i]
            mask = found.setdefault((instruction.file, instruction.line), np.zeros(len(chosen), dtype=bool))
            mask[i] = True
        return found

    def sum(self, name: str, chosen: np.ndarray) -> float:
        """One counter over the instructions of a mask."""
        return self.table.sum(name, chosen)

    def without(self, unit: str, amount: float) -> float:
        """The factor of a unit's time if its work is reduced by ``amount``."""
        demand = self.prediction.demands.get(unit)
        if demand is None or not demand.amount:
            return 1.0
        return max(0.0, 1.0 - amount / demand.amount)

    def speedup(self, factors: Mapping[str, float]) -> float:
        """The speed-up of the launch if the time of each unit is multiplied by its factor."""
        return self.prediction.speedup(factors)

    def sample(self, chosen: np.ndarray) -> Sample | None:
        """The sampled request of these instructions with the most active lanes, or None."""
        found = [each for i in np.flatnonzero(chosen) for each in self.counts.samples.get(int(i), ())]
        return max(found, key=lambda each: sum(each.lanes >> lane & 1 for lane in range(32)), default=None)

    def text(self, place: Place) -> str:
        """The source text of a line, or ""."""
        file, number = place
        for name, lines in self.source.items():
            if name == file or PurePath(name).name == PurePath(file).name:
                return lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return ""


def stride(sample: Sample | None) -> int | None:
    """Bytes between the addresses of neighbouring lanes, if most of them have the same distance; else None."""
    if sample is None:
        return None
    lanes = [lane for lane in range(32) if sample.lanes >> lane & 1]
    steps = [sample.addresses[b] - sample.addresses[a] for a, b in itertools.pairwise(lanes) if b == a + 1]
    if not steps:
        return None
    common = max(set(steps), key=steps.count)
    return common if 2 * steps.count(common) > len(steps) else None


def percent(part: float) -> str:
    """0.256 as "26 %"."""
    return f"{100 * part:.0f} %"
