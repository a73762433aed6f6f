"""Emulated counters and predictions beside the recorded ones, launch by launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from benchmarks.fidelity_points import Kind, Problem, Selection, multiprocessors, problems
from benchmarks.fidelity_record import Record, Recorded

from warpwise import operation
from warpwise.cuda.launch.intercept import intercepting
from warpwise.lab.explain import Explanation, Options, explain_launch

# How far apart counters may be, as a part of the measured one. In which rounds L1 hands atomics of many lanes to L2 is known
# by its rule for one warp at a time, which is 2 % off where thousands contend.
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
    "launch__registers_per_thread", "launch__occupancy_limit_blocks", "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem", "launch__occupancy_limit_warps", "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic", "launch__shared_mem_per_block_allocated", "sm__maximum_warps_per_active_cycle_pct",
)  # fmt: skip
"""What must be equal, where the compiler is the same."""
_SOURCE = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_COPIES = "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum"


def reference(metric: str, measured: Mapping[str, float]) -> float | None:
    """What ``metric`` is compared with, of what ncu measured; None where it did not measure it.

    The hardware's counters of shared memory also count wavefronts that arbitration in the data stage adds, some more in
    one run and less in the next. Where ncu counted what the machine code asks for (``smsp__sass_...``), that is taken: for
    wavefronts as it is, for conflicts by leaving out the wavefronts that the hardware counts above it.
    """
    value = measured.get(metric)
    if value is None or "mem_shared_op_" not in metric or "pipe_lsu" not in metric:
        return value
    op = metric.removesuffix(".sum").rpartition("_")[2]
    if op == "ldgsts":
        return measured.get(_COPIES, value)
    hardware, asked = measured.get(_WAVEFRONTS.format(op)), measured.get(_SOURCE.format(op))
    matrices = measured.get(_SOURCE.format("ldsm"), 0.0) if op == "ld" else 0.0  # the hardware's loads hold ldmatrix's
    if hardware is None or (asked is None and not matrices):
        return value
    asked = (asked or 0.0) + matrices
    return asked if metric == _WAVEFRONTS.format(op) else max(0.0, value - max(0.0, hardware - asked))


@dataclass(frozen=True)
class Difference:
    """A metric of one launch that is not what ncu measured."""

    metric: str
    emulated: float
    measured: float

    @property
    def relative(self) -> float:
        """The difference as a part of what was measured."""
        return abs(self.emulated - self.measured) / max(abs(self.measured), 1.0)

    def __str__(self) -> str:
        return f"{self.metric}: {self.emulated:,.10g}, measured {self.measured:,.10g} ({100 * self.relative:.1f} %)"


@dataclass(frozen=True)
class Compared:
    """One recorded launch with its explanation; ``error`` says why there is none."""

    recorded: Recorded
    explanation: Explanation | None
    error: str = ""

    def differences(self) -> list[Difference]:
        """Counters beyond their tolerance, and resources that are not equal."""
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
                # Of the shared memory that the driver set aside for this launch, which is its own choice.
                value = measured["launch__shared_mem_config_size"] // emulated["launch__shared_mem_per_block_allocated"]
            if abs(value - expected) > tolerance * expected + 1e-6:
                found.append(Difference(metric, value, expected))
        return found

    @property
    def agrees(self) -> bool:
        """Whether everything that was compared agrees."""
        return not self.error and not self.differences()


def compare(record: Record, kind: Kind, options: Options) -> Iterator[Compared]:
    """Every recorded launch of ``kind``, in the record's order, explained on the CPU as for the recorded device."""
    op = operation.get(record.op)
    chosen = Selection(tuple(dict.fromkeys(launch.dtype for launch in record.launches)))
    by_key = {launch.key: launch for launch in record.launches if launch.kind == kind}
    with multiprocessors(int(record.environment["multiprocessors"])):
        for problem in problems(op, kind, chosen):
            yield from _compare(problem, by_key, options)
    yield from (Compared(launch, None, "not launched here") for launch in by_key.values())


def _compare(problem: Problem, by_key: dict[tuple[object, ...], Recorded], options: Options) -> Iterator[Compared]:
    """Explain the launches of each rung; those found are taken out of ``by_key``."""
    key = problem.op.name, str(problem.dtype).removeprefix("torch."), problem.case.name, problem.kind
    recorded_rungs = {rung for op, rung, *point, _ in by_key if (op, *point) == key}
    if not recorded_rungs:
        return
    args = problem.arguments(torch.device("cpu"))
    for rung in problem.rungs(*args):
        if rung.name not in recorded_rungs:
            continue
        made: list[Explanation | str] = []

        def explain(
            launcher: object, given: tuple[object, ...], more: object, made: list[Explanation | str] = made
        ) -> None:
            made.append(explain_launch(launcher, given, None, options))

        with intercepting(explain):
            problem.op.launch(rung, problem.op.allocate(*args), *args)
        for index, explanation in enumerate(made):
            recorded = by_key.pop((key[0], rung.name, *key[1:], index), None)
            if recorded is not None:
                yield _checked(recorded, explanation)


def _checked(recorded: Recorded, explanation: Explanation | str) -> Compared:
    if isinstance(explanation, str):
        return Compared(recorded, None, explanation)
    if explanation.unsupported:
        return Compared(recorded, None, explanation.unsupported)
    here = explanation.kernel, tuple(explanation.grid), tuple(explanation.block)
    there = recorded.expression, recorded.grid, recorded.block
    if here != there:
        return Compared(recorded, None, f"launched as {here} here, as {there} there")
    if explanation.counts is not None:  # without the buffers, which may take gigabytes
        explanation = replace(explanation, counts=replace(explanation.counts, outputs={}))
    return Compared(recorded, explanation)
