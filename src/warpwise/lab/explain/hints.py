"""What could be done about a launch: hints in the manner of Nsight Compute, the one that gains most first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from warpwise.lab.explain import hint_code, hint_launch, hint_memory, hint_shared
from warpwise.lab.explain.hardware import Hardware
from warpwise.lab.explain.hint import Hint, Launch, Place
from warpwise.lab.explain.occupancy import Occupancy
from warpwise.lab.explain.time_model import Prediction
from warpwise.machine.counts import Counts

__all__ = ["Hint", "hints"]

RULES: tuple[Callable[[Launch], Iterator[Hint]], ...] = (
    hint_memory.uncoalesced, hint_memory.reused, hint_memory.narrow, hint_memory.local, hint_memory.atomics,
    hint_shared.conflicts, hint_shared.crowded_atomics, hint_shared.through_shared, hint_shared.idle_barriers,
    hint_launch.occupancy, hint_launch.waves, hint_launch.small_grid, hint_launch.overhead, hint_launch.roof,
    hint_code.divergence, hint_code.waiting, hint_code.division, hint_code.double_precision,
)  # fmt: skip


def hints(
    counts: Counts,
    lines: Mapping[Place, Mapping[str, float]],
    occupancy: Occupancy,
    prediction: Prediction,
    hardware: Hardware,
    source: Mapping[str, Sequence[str]] | None = None,
) -> list[Hint]:
    """All that applies: "OPT" by estimated speed-up, then those without an estimate, then "INF".

    ``lines`` are ``line_metrics``; ``source`` maps files to their lines of text, which some rules look at.
    """
    launch = Launch(counts, lines, occupancy, prediction, hardware, source or {})
    found = [hint for rule in RULES for hint in rule(launch)]
    return sorted(found, key=lambda hint: (hint.kind != "OPT", hint.speedup is None, -(hint.speedup or 0.0)))
