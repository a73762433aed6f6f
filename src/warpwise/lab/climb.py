"""``climb``: verify the rungs of an operation and, on a GPU, time the right ones and their opponents."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from warpwise.lab.explain.rungs import too_large
from warpwise.lab.ladder import Ladder, Point, Row, recorded
from warpwise.lab.time_point import opponents, time_point
from warpwise.lab.timing.ceilings import ceilings_for
from warpwise.lab.timing.compare import Rules, timer_for
from warpwise.lab.timing.environment import current, environment, place, resolve
from warpwise.lab.timing.roofline import Roofline
from warpwise.lab.timing.samples import Timer
from warpwise.lab.verify import verify
from warpwise.lab.verify.gradient import verify_gradient
from warpwise.lab.verify.problem import Problem
from warpwise.lab.verify.usable import require_usable
from warpwise.lab.verify.verdict import Failure, Progress, Step, Verdict, dtype_name, silent
from warpwise.operation import Case, Op, Rung
from warpwise.operation.registry import op_of


def climb(
    op: Op | str,
    *,
    device: torch.device | str | None = None,
    sizes: Sequence[Case | str] | None = None,
    dtypes: Sequence[torch.dtype] | None = None,
    timed_dtypes: Sequence[torch.dtype] | None = None,
    rungs: Sequence[str] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress | None = None,
    budget_s: float = 10.0,
    precision: float = 0.005,
    timer: Timer | None = None,
    ceilings: Callable[[torch.device, torch.dtype | str], Roofline | None] = ceilings_for,
    compiled: bool = True,
) -> Ladder:
    """Verify the rungs and, on a GPU, time the correct ones at ``sizes``, interleaved with PyTorch and other opponents.

    ``op`` is an operation or the name of a registered one. ``sizes`` are cases, or names of the specification's sizes;
    by default all sizes of the specification. ``rungs`` are names, by default all. Rungs are verified with ``seeds`` in
    ``dtypes``, by default the specification's, and timed in ``timed_dtypes``, by default ``dtypes``. The operation's
    gradient, if it has one, is verified too.

    Timing one size and dtype ends when half of each 95 % interval is at most ``precision`` of the median, or after
    ``budget_s`` seconds. ``ceilings(device, units)`` returns the measured rates that give the floor of a time, or None.
    Unless ``compiled``, torch.compile is not among the opponents. ``progress`` is called with each ``Step``.

    On a CPU kernels are emulated and not timed. Rungs are also verified at the given ``sizes``, unless these are too
    large to emulate, and the ladder contains the last times recorded on a GPU. With a ``timer``, which replaces the
    device's own, a CPU times the rungs that run on it natively.

    Raises ``ProblemError`` if the specification cannot reject wrong results or names something that does not exist,
    ``UnknownRung`` for an unknown rung, and ``ValueError`` for an unknown size.
    """
    op = op_of("climb", op)
    report, started = progress or silent, time.perf_counter()
    where = resolve(device)
    chosen = [op.rung(name) for name in rungs] if rungs else list(op.rungs)
    cases = _cases(op, sizes)
    require_usable(op, chosen, (dtypes or op.spec.dtypes)[0], where)
    points_at = [(case, dtype) for case in cases for dtype in timed_dtypes or dtypes or op.spec.dtypes]
    timed = timer is not None or where.type == "cuda"
    large = [case for case in cases if too_large(op, case, points_at[0][1])] if not timed and sizes is not None else []
    further = [case for case in cases if case not in large] if not timed and sizes is not None else []
    problem = Problem(op, where)
    rows = _verified(op, chosen, problem, (*op.spec.cases, *further), dtypes, seeds, report)
    lost = any(row.verdict.lost for row in rows)
    eager = "" if lost else _eager(op, problem)
    problem.forget()
    gradient = None if lost else _gradient(op, where, further, report)
    points: list[Point] = []
    if timed and not lost:
        timer = timer or timer_for(where)
        for done, (case, dtype) in enumerate(points_at):
            detail = f"{case}, {dtype_name(dtype)}"
            report(Step("time", "", detail, done, len(points_at)))
            right = [rung for rung, row in zip(chosen, rows, strict=True) if row.verdict.right and _native(rung, where)]
            try:
                with current(where):
                    point, at_size = time_point(
                        op,
                        problem,
                        case,
                        dtype,
                        right,
                        seeds,
                        timer,
                        Rules(precision, budget_s),
                        functools.partial(ceilings, where),
                        opponents(op, compiled),
                        _watch(report, detail, done, len(points_at)),
                    )
                rows, lost = [_with_failure(row, at_size.failures, at_size.lost) for row in rows], at_size.lost
            except torch.cuda.OutOfMemoryError as error:
                point = Point(
                    case, dtype, (), notes=(f"not timed, too little GPU memory: {str(error).partition('. ')[0]}",)
                )
            finally:
                problem.forget()
            points.append(point)
            report(Step("time", "", detail, done + 1, len(points_at), point))
            if lost:
                break
    notes = [f"{case}: ignored, because it is too large for a checked run on a CPU" for case in large]
    if lost:
        notes.append("the CUDA context was lost, so nothing more could be run")
    return Ladder(
        op.name,
        op.spec.summary,
        place(where),
        environment(where),
        tuple(rows),
        tuple(points),
        time.perf_counter() - started,
        None if timed else recorded(op.name),
        tuple(notes),
        gradient,
        eager,
    )


def _eager(op: Op, problem: Problem) -> str:
    """A description of the first error in the results of ``Spec.eager`` in the first dtype, or an empty string."""
    for case in op.spec.cases:
        instance = problem.instance(case, op.spec.dtypes[0], 0)
        results = instance.eager(op.spec.eager)
        for position, result in enumerate(results):
            found = instance.compare(position, result, results)
            if not found.right:
                return f"{case}: {found.described(instance.results[position].name)}; {found.counted}"
    return ""


def _gradient(op: Op, device: torch.device, further: Sequence[Case], report: Progress) -> Verdict | None:
    """The verdict on the operation's gradient at its normal cases and at ``further``, or None if it has none."""
    if op.spec.gradient is None:
        return None
    report(Step("gradient", "", op.name, 0, 1))
    cases = [case for case in (*op.spec.cases, *further) if case.values == "normal"]
    with current(device):
        verdict = verify_gradient(op, device=device, cases=cases)
    report(Step("gradient", "", op.name, 1, 1, verdict))
    return verdict


def _native(rung: Rung, device: torch.device) -> bool:
    """True if ``rung`` runs natively on ``device``: the time of an emulated kernel is not reported."""
    return device.type == "cuda" or rung.language in ("c", "python")


def _cases(op: Op, sizes: Sequence[Case | str] | None) -> list[Case]:
    known = {case.name: case for case in op.spec.sizes}
    found = []
    for size in sizes if sizes is not None else op.spec.sizes:
        if isinstance(size, str) and size not in known:
            raise ValueError(f"{op.name}: no size {size!r}; there are {', '.join(known)}")
        found.append(known[size] if isinstance(size, str) else size)
    return found


def _verified(
    op: Op,
    rungs: Sequence[Rung],
    problem: Problem,
    cases: Sequence[Case],
    dtypes: Sequence[torch.dtype] | None,
    seeds: Sequence[int],
    report: Progress,
) -> list[Row]:
    """Return a row for each rung. Once the CUDA context is lost, the remaining rungs are untested."""
    rows: list[Row] = []
    for rung in rungs:
        if any(row.verdict.lost for row in rows):
            verdict = Verdict(
                op.name, rung.name, rows[-1].verdict.place, "untested", notes=("an earlier rung lost the CUDA context",)
            )
        else:
            verdict = verify(op, rung, cases=cases, dtypes=dtypes, seeds=seeds, progress=report, problem=problem)
        rows.append(Row(rung.name, rung.idea, rung.language, verdict))
    return rows


def _watch(report: Progress, detail: str, done: int, total: int) -> Callable[[int, float], None]:
    def watch(rounds: int, seconds: float) -> None:
        report(Step("time", "", f"{detail}: round {rounds}, {seconds:.1f} s", done, total))

    return watch


def _with_failure(row: Row, failures: dict[str, Failure], lost: bool) -> Row:
    """``row`` with the verdict "wrong" if its rung failed at a timed size."""
    failure = failures.get(row.rung)
    if failure is None:
        return row
    verdict = replace(row.verdict, status="wrong", failures=(*row.verdict.failures, failure), lost=lost)
    return replace(row, verdict=verdict)
