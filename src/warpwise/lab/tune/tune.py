"""``tune``: verify the candidates at each size, dtype and layout, and time them and PyTorch by successive halving.

Each point is written to the file before the next begins. If tuning is stopped, the next run continues: points whose
candidates and kernels have not changed are not measured again.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from warpwise.lab.time_point import TimedPoint, eager_name
from warpwise.lab.timing.compare import Rules, measure, timer_for
from warpwise.lab.timing.environment import current, environment, resolve
from warpwise.lab.timing.rotation import rotated
from warpwise.lab.timing.samples import Timer
from warpwise.lab.timing.timing import Timing
from warpwise.lab.tune.candidates import Pruner, arranged, candidates, compile_all, fingerprint
from warpwise.lab.verify.problem import Instance, Problem
from warpwise.lab.verify.verdict import dtype_name
from warpwise.operation import Case, Op, Rung, Tables, device_of
from warpwise.operation.registry import op_of
from warpwise.tuned import TORCH, Table, TunedPoint, add_point, load, reload

Candidates = Callable[[Op, Sequence[Rung], Sequence[Any], torch.device], Sequence[Rung]]

FINALISTS = 3
SEED = 0


class TuneError(ValueError):
    """The operation or device cannot be tuned; the message gives the reason."""


@dataclass(frozen=True)
class Progress:
    """Progress: ``done`` of ``total`` points. ``point`` has just ended, ``kept`` if an earlier run measured it.

    ``times`` are the medians in seconds of every candidate of a measured point and of PyTorch ("torch"), those of the
    last round that a candidate took part in.
    """

    done: int
    total: int
    label: str
    stage: str = ""
    point: TunedPoint | None = None
    kept: bool = False
    times: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Tuned:
    """The result of tuning: the table, its file, the number of points measured now, and notes on what failed."""

    table: Table
    path: Path
    measured: int
    notes: tuple[str, ...] = ()


def tune(
    op: Op | str,
    *,
    device: torch.device | str | None = None,
    sizes: Sequence[Case] | None = None,
    dtypes: Sequence[torch.dtype] | None = None,
    layouts: Sequence[str] | None = None,
    rungs: Sequence[str] | None = None,
    budget_s: float = 2.0,
    fresh: bool = False,
    path: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    timer: Timer | None = None,
    select: Candidates = candidates,
) -> Tuned:
    """Find the fastest rung at each of ``sizes``, ``dtypes`` and ``layouts``; write it to ``path`` or the user's table.

    ``op`` is an operation or the name of a registered one. By default sizes are those of its tables, or its timing
    sizes, with all dtypes and layouts. Small points come first, so that rungs that are far slower there are skipped at
    larger ones. Timing one point takes about ``budget_s`` seconds, without compilation and verification. With
    ``fresh``, points that the file already has are measured again.
    ``rungs`` are names, by default all; ``select(op, rungs, args, device)`` returns those, with their configurations,
    to be measured at a point. ``progress`` is called with a ``Progress`` at each stage of a point. ``timer``
    replaces the device's own.

    Raises ``TuneError`` if ``op`` has no tables, for an unknown layout, if none of the rungs can be timed on
    ``device``, or if there is no GPU and no ``device`` is given; ``ValueError`` for an unknown device,
    ``UnknownRung`` for a rung.
    """
    op = op_of("tune", op)
    where, tables = resolve(device), op.tables
    if not isinstance(tables, Tables):
        raise TuneError(
            f"{op.name}: cannot be tuned, because its Op has no tables=operation.Tables(...); "
            "`warpwise ops` marks tunable operations"
        )
    if device is None and where.type != "cuda":
        raise TuneError(
            f"{op.name}: there is no GPU here, and PyTorch computes all calls on a CPU, so no table is used there; "
            "device='cpu' (--device cpu) times the rungs that run natively on a CPU"
        )
    chosen = [op.rung(name) for name in rungs] if rungs else list(op.rungs)
    if not any(_native(rung, where) for rung in chosen):
        raise TuneError(f"{op.name}: no rung can be timed on {where}: kernels are emulated there")
    for layout in layouts or ():
        if layout not in tables.arrangements:
            raise TuneError(f"{op.name}: no layout {layout!r}; there are {', '.join(tables.arrangements)}")
    report, about = progress or (lambda step: None), device_of(where)
    file = path or tables.user_file(about)
    table = load(file)
    if table is None or table.device != about:
        table = Table(op.name, about)
    table = replace(table, environment=environment(where))
    points = list(_points(op, tables, sizes, dtypes, layouts))
    tuner = _Tuner(op, tables, chosen, where, budget_s, lambda: timer or timer_for(where), report, len(points),
                   select)  # fmt: skip
    measured, notes = 0, list[str]()
    for done, (case, dtype, layout) in enumerate(points):
        try:
            with current(where):
                point = tuner.point(done, case, dtype, layout, table, fresh)
        except torch.cuda.OutOfMemoryError as error:
            notes.append(f"{case}, {dtype_name(dtype)}: too little GPU memory: {str(error).partition('. ')[0]}")
            continue
        if point is not None:
            table, measured = add_point(file, table, point), measured + 1
            reload()
        if tuner.lost:
            notes.append("the CUDA context was lost, so nothing more could be run")
            break
    return Tuned(table, file, measured, (*notes, *tuner.notes))


def _points(
    op: Op,
    tables: Tables,
    sizes: Sequence[Case] | None,
    dtypes: Sequence[torch.dtype] | None,
    layouts: Sequence[str] | None,
) -> Iterator[tuple[Case, torch.dtype, str]]:
    cases = list(sizes if sizes is not None else tables.sizes or op.spec.sizes)
    cases.sort(key=lambda case: math.prod(case.sizes.values()))
    yield from itertools.product(cases, dtypes or op.spec.dtypes, layouts or tables.arrangements)


def _native(rung: Rung, device: torch.device) -> bool:
    return device.type in rung.devices and (device.type == "cuda" or rung.language in ("c", "python"))


class _Tuner:
    """Measures one point after another."""

    def __init__(
        self,
        op: Op,
        tables: Tables,
        rungs: Sequence[Rung],
        device: torch.device,
        budget_s: float,
        timer: Callable[[], Timer],
        report: Callable[[Progress], None],
        total: int,
        select: Candidates,
    ) -> None:
        self.op, self.tables, self.rungs, self.device = op, tables, rungs, device
        self.budget, self.timer, self.report, self.total = budget_s, timer, report, total
        self.select = select
        self.pruner, self.notes, self.lost = Pruner(), list[str](), False

    def point(
        self, done: int, case: Case, dtype: torch.dtype, layout: str, table: Table, fresh: bool
    ) -> TunedPoint | None:
        """Measure the point; return None if the table has it already or nothing can be timed."""
        op = arranged(self.op, self.tables, layout)
        label = f"{case.name} {dtype_name(dtype)} {layout}".strip()
        self.report(Progress(done, self.total, label, "making inputs"))
        args = op.spec.arguments(case, dtype, self.device, SEED)
        kind, sizes = self.tables.describe(*args)
        if min(sizes.values(), default=1) < 1:
            self.notes.append(f"{case}, {dtype_name(dtype)}: nothing to be timed where a size is 0")
            return None
        found = list(self.select(op, self.rungs, args, self.device))
        cost = op.spec.cost(*args)
        blank = TunedPoint(
            dtype_name(dtype),
            kind,
            dict(sizes),
            TORCH,
            math.nan,
            "",
            None,
            cost.flops or cost.bytes,
            len(found),
            fingerprint(found),
        )
        known = next((point for point in table.points if point.key() == blank.key()), None)
        if known is not None and known.fingerprint == blank.fingerprint and not fresh:
            self.report(Progress(done + 1, self.total, label, point=known, kept=True))
            return None
        found = self.pruner.remaining(found, blank.dtype, sizes)
        self.report(Progress(done, self.total, label, f"compiling {len(found)} candidates"))
        compile_all(op, found, args, self.device)
        del args
        say = functools.partial(self._say, done, label)
        times, final = self._times(op, found, case, dtype, say)
        point = won(blank, final)
        if point is not None:
            self.pruner.note(point, times)
            self.report(Progress(done + 1, self.total, label, point=point, times={**times, **final}))
        return point

    def _say(self, done: int, label: str, stage: str) -> None:
        self.report(Progress(done, self.total, label, stage))

    def _times(
        self, op: Op, found: Sequence[Rung], case: Case, dtype: torch.dtype, say: Callable[[str], None]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Return the seconds of each right candidate in its last round, and those of the last round, with PyTorch."""
        problem = Problem(op, self.device)
        instance, timer = problem.make(case, dtype, SEED), self.timer()  # a timer keeps references to what it has timed
        timed = TimedPoint(op, problem, case, dtype, SEED)
        sets = rotated(instance.args, timer.cache_bytes)
        say(f"verifying {len(found)} candidates")
        timed.add_rungs(found, instance, sets)
        self.lost = timed.lost
        if timed.lost:
            return {}, {}
        rival = eager_name(op)
        timed.add_opponents({rival: op.spec.eager}, instance, sets)
        self.notes += [f"{name}, {case}: {failure.message}" for name, failure in timed.failures.items()]
        every: dict[str, Any] = dict(timed.candidates)
        active, times = [name for name in every if name != rival], dict[str, float]()
        rounds = max(0, math.ceil(math.log2(max(1, len(active) / FINALISTS))))
        while True:
            last = len(active) <= FINALISTS
            say(f"timing {len(active)} candidates")
            budget = self.budget / 2 if last else self.budget / 2 / max(1, rounds)
            taking_part = {name: every[name] for name in (*active, rival) if name in every}
            timings = self._measured(timed, taking_part, timer, budget, instance, last)
            wrong = [name for name, timing in timings.items() if timing.void]
            self.notes += [f"{name}, {case}: {timings[name].void}" for name in wrong]
            final = {name: timing.median for name, timing in timings.items() if not timing.void}
            times |= final
            if last:
                break
            active = sorted((name for name in active if name in final), key=lambda name: final[name])
            active = active[: max(FINALISTS, math.ceil(len(active) / 2))]
        return {name: times[name] for name in every if name in times and name != rival}, {
            TORCH if name == rival else name: seconds for name, seconds in final.items()
        }

    def _measured(
        self,
        timed: TimedPoint,
        taking_part: Mapping[str, Any],
        timer: Timer,
        budget: float,
        instance: Instance,
        last: bool,
    ) -> dict[str, Timing]:
        """Time one round. The last one poisons the outputs after the warm-up and verifies them at the end."""
        if not taking_part:
            return {}

        def poisoned() -> None:
            for candidate in taking_part.values():
                candidate.poison()

        def check(name: str, result: Any) -> str | None:
            return timed.compare(instance, name, result)

        rules = Rules(precision=0.003 if last else 0.01, budget=budget)
        return measure(taking_part, timer, rules, check=check if last else None, reset=poisoned if last else None)


def won(blank: TunedPoint, times: Mapping[str, float]) -> TunedPoint | None:
    """The point with the fastest of ``times`` and its rival: PyTorch, or the fastest rung if PyTorch wins."""
    if not times:
        return None
    winner = min(times, key=lambda name: (times[name], name == TORCH))
    others = {name: seconds for name, seconds in times.items() if (name == TORCH) != (winner == TORCH)}
    rival = min(others, key=lambda name: others[name], default="")
    return replace(
        blank,
        winner=winner,
        seconds=_rounded(times[winner]),
        rival=rival,
        rival_seconds=_rounded(others[rival]) if rival else None,
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")
