"""What a hint is, and what those who look for one are given."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
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

WORTH = 1.05  # a speed-up from which on a change is advised
Place = tuple[str, int]


@dataclass(frozen=True)
class Hint:
    """One thing to know of a launch, in the manner of Nsight Compute.

    ``kind`` is "OPT" where something can be gained, "INF" where it is only good to know. ``speedup`` is estimated, as a
    factor of the whole launch's time, or None; ``metric`` and ``value`` are the number behind it, ``file`` and ``line``
    the place (line 0: the launch as a whole). ``idea`` is what to try: the next rung.
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
    """Everything known of a launch. ``lines`` are ``line_metrics``, ``source`` maps files to their lines of text."""

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
        """By what a unit's time is multiplied if it is asked for ``amount`` less."""
        demand = self.prediction.demands.get(unit)
        if demand is None or not demand.amount:
            return 1.0
        return max(0.0, 1.0 - amount / demand.amount)

    def speedup(self, factors: Mapping[str, float]) -> float:
        """The whole launch's, if the times of these units were multiplied by these factors."""
        return self.prediction.speedup(factors)

    def sample(self, chosen: np.ndarray) -> Sample | None:
        """A request of one of these instructions, with the addresses of its lanes: the one with most lanes."""
        found = [each for i in np.flatnonzero(chosen) for each in self.counts.samples.get(int(i), ())]
        return max(found, key=lambda each: sum(each.lanes >> lane & 1 for lane in range(32)), default=None)

    def text(self, place: Place) -> str:
        """The source text of a line, or nothing."""
        file, number = place
        for name, lines in self.source.items():
            if name == file or PurePath(name).name == PurePath(file).name:
                return lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return ""


def stride(sample: Sample | None) -> int | None:
    """Bytes between the addresses of neighbouring lanes, if it is the same for most of them; else None."""
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


def listed(names: Iterable[str]) -> str:
    """ "registers and shared memory"."""
    names = list(names)
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
