"""Compares emulated counters and predictions with recorded ones, launch by launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from warpwise.cuda.launch.intercept import intercepting
from warpwise.lab.explain import Explanation, Options, explain_launch
from warpwise.lab.fidelity.points import Kind, ProfiledPoint, dtype_name, recorded_points
from warpwise.lab.fidelity.record import Record, RecordedLaunch

# Tolerances, relative to the measured counter. The model of how L1 sends the atomics of a warp to L2 considers one
# warp at a time: it is 2 % off where thousands of warps contend.
COUNTED, CONFLICTS, ATOMIC = 0.01, 0.02, 0.05
_T = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
COUNTERS: Mapping[str, float] = {
    **{_T.format(what, "global", op): COUNTED for what in ("requests", "sectors") for op in ("ld", "st")},
    **{_T.format(what, "global", op): ATOMIC for what in ("requests", "sectors") for op in ("red", "atom")},
    **{_T.format(what, "local", op): COUNTED for what in ("requests", "sectors") for op in ("ld", "st")},
    **{_WAVEFRONTS.format(op): COUNTED for op in ("ld", "st", "atom")},
    **{
        f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum": CONFLICTS
        for op in ("ld", "st", "atom", "ldgsts")
    },
}
"""The counters that must agree, each with its tolerance."""
RESOURCES = (
    "launch__registers_per_thread",
    "launch__occupancy_limit_blocks",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
    "launch__shared_mem_per_block_allocated",
    "sm__maximum_warps_per_active_cycle_pct",
)
"""Metrics that must be equal, given the same compiler."""
_SOURCE = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_COPIES = "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum"


def reference(metric: str, measured: Mapping[str, float]) -> float | None:
    """The measured value to compare ``metric`` with; None if it was not measured.

    The hardware's counters of shared memory include wavefronts that arbitration in the data stage adds, a number that
    varies between runs. Where ncu also counted by machine code (``smsp__sass_...``), that count is the reference for
    wavefronts, and the hardware's excess over it is subtracted from the bank conflicts.
    """
    value = measured.get(metric)
    if value is None or "mem_shared_op_" not in metric or "pipe_lsu" not in metric:
        return value
    op = metric.removesuffix(".sum").rpartition("_")[2]
    if op == "ldgsts":
        return measured.get(_COPIES, value)
    hardware, asked = measured.get(_WAVEFRONTS.format(op)), measured.get(_SOURCE.format(op))
    matrices = measured.get(_SOURCE.format("ldsm"), 0.0) if op == "ld" else 0.0  # the hardware counts ldmatrix as loads
    if hardware is None or (asked is None and not matrices):
        return value
    asked = (asked or 0.0) + matrices
    return asked if metric == _WAVEFRONTS.format(op) else max(0.0, value - max(0.0, hardware - asked))


@dataclass(frozen=True)
class CounterDifference:
    """A metric of one launch that differs from ncu's."""

    metric: str
    emulated: float
    measured: float

    @property
    def relative(self) -> float:
        """The difference relative to the measured value."""
        return abs(self.emulated - self.measured) / max(abs(self.measured), 1.0)

    def __str__(self) -> str:
        return f"{self.metric}: {self.emulated:,.10g}, measured {self.measured:,.10g} ({100 * self.relative:.1f} %)"


@dataclass(frozen=True)
class Compared:
    """One recorded launch and its explanation, or None and the reason in ``error``."""

    recorded: RecordedLaunch
    explanation: Explanation | None
    error: str = ""

    def differences(self) -> list[CounterDifference]:
        """Counters that differ by more than their tolerance, and resources that are not equal."""
        if self.explanation is None:
            return []
        emulated, measured = self.explanation.metrics, self.recorded.metrics
        found = []
        for metric, tolerance in (*COUNTERS.items(), *((name, 0.0) for name in RESOURCES)):
            expected = reference(metric, measured)
            if expected is None:
                continue
            value = emulated.get(metric, 0.0)
            if metric == "launch__occupancy_limit_shared_mem":
                # The limit depends on the shared memory carve-out, which the driver chooses.
                value = measured["launch__shared_mem_config_size"] // emulated["launch__shared_mem_per_block_allocated"]
            if abs(value - expected) > tolerance * expected + 1e-6:
                found.append(CounterDifference(metric, value, expected))
        return found

    @property
    def agrees(self) -> bool:
        """True if every compared metric agrees."""
        return not self.error and not self.differences()


def compare(record: Record, kind: Kind, options: Options) -> Iterator[Compared]:
    """Explain every recorded launch of ``kind`` on the CPU. Raises ``LookupError`` if the operation is not registered.

    Grids are those of the recorded device only if launchers assume its number of SMs,
    ``record.environment["multiprocessors"]``: the caller arranges that.
    """
    by_key = {launch.key: launch for launch in record.launches if launch.kind == kind}
    for point in recorded_points(record, kind):
        yield from _compare(point, by_key, options)
    yield from (Compared(launch, None, "not launched here") for launch in by_key.values())


def _compare(
    point: ProfiledPoint, by_key: dict[tuple[object, ...], RecordedLaunch], options: Options
) -> Iterator[Compared]:
    """Explain the launches of each rung, and remove them from ``by_key``."""
    args = point.arguments(torch.device("cpu"))
    for rung in point.rungs(*args):
        made: list[Explanation | str] = []

        def explain(
            launcher: object, given: tuple[object, ...], more: object, made: list[Explanation | str] = made
        ) -> None:
            made.append(explain_launch(launcher, given, None, options))

        with intercepting(explain):
            point.op.launch(rung, point.op.allocate(*args), *args)
        for index, explanation in enumerate(made):
            key = point.op.name, rung.name, dtype_name(point.dtype), point.case.name, point.kind, index
            recorded = by_key.pop(key, None)
            if recorded is not None:
                yield _checked(recorded, explanation)


def _checked(recorded: RecordedLaunch, explanation: Explanation | str) -> Compared:
    if isinstance(explanation, str):
        return Compared(recorded, None, explanation)
    if explanation.unsupported:
        return Compared(recorded, None, explanation.unsupported)
    here = explanation.kernel, tuple(explanation.grid), tuple(explanation.block)
    there = recorded.expression, recorded.grid, recorded.block
    if here != there:
        return Compared(recorded, None, f"launched as {here} here, recorded as {there}")
    if explanation.counts is not None:  # drop the buffers, which may take gigabytes
        explanation = replace(explanation, counts=replace(explanation.counts, outputs={}))
    return Compared(recorded, explanation)
