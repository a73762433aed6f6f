"""The rules that give hints on a launch, in the manner of Nsight Compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from warpwise.lab.explain.hints import adjacent, instructions, late_loads, launch, memory, shared
from warpwise.lab.explain.hints.hint import Hint, LaunchAnalysis, Place
from warpwise.lab.explain.model.hardware import Hardware
from warpwise.lab.explain.model.occupancy import Occupancy
from warpwise.lab.explain.model.time_model import Prediction
from warpwise.machine.counts import Counts

__all__ = ["Hint", "hints"]

RULES: tuple[Callable[[LaunchAnalysis], Iterator[Hint]], ...] = (
    memory.uncoalesced, memory.l1_conflicts, memory.reused, memory.narrow, memory.local, memory.atomics,
    shared.conflicts, shared.crowded_atomics, shared.through_shared, shared.idle_barriers,
    launch.occupancy, launch.waves, launch.uneven, launch.small_grid, launch.overhead, launch.roof,
    instructions.divergence, instructions.waiting, instructions.division, instructions.double_precision,
    late_loads.late, adjacent.adjacent,
)  # fmt: skip


def hints(
    counts: Counts,
    lines: Mapping[Place, Mapping[str, float]],
    occupancy: Occupancy,
    prediction: Prediction,
    hardware: Hardware,
    source: Mapping[str, Sequence[str]] | None = None,
) -> list[Hint]:
    """The hints that apply: "OPT" by estimated speed-up, then those without an estimate, then "INF".

    ``lines`` are ``line_metrics``; ``source`` maps files to their lines of text, which some rules examine.
    """
    analysis = LaunchAnalysis(counts, lines, occupancy, prediction, hardware, source or {})
    found = [hint for rule in RULES for hint in rule(analysis)]
    return sorted(found, key=lambda hint: (hint.kind != "OPT", hint.speedup is None, -(hint.speedup or 0.0)))
