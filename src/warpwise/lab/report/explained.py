"""Explanations of a ladder's rungs, reduced to the content of a page and cached, since each takes seconds."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import warpwise
from warpwise import cache
from warpwise.cuda import KernelError
from warpwise.cuda.source.includes import source_digest
from warpwise.lab.explain import Explanation, explain_rung
from warpwise.lab.explain.model.explanation import Line
from warpwise.lab.explain.rungs import checkable
from warpwise.lab.report.collected import MeasuredPoint
from warpwise.lab.report.processes import on_all_cores
from warpwise.lab.verify.verdict import dtype_name
from warpwise.operation import Case, Op, Rung

FORMAT = 3  # version of the cached data
CODE = Path(__file__).parents[2]  # the package, whose code is part of the cache key
UNITS = 5
MOST_BYTES = 2**28
BUDGET_S = 0.5  # seconds to execute a launch: as many blocks as fit


@dataclass(frozen=True)
class Advice:
    """A hint: ``kind`` is "OPT" or "INF", ``speedup`` an estimated factor of the launch's time or None."""

    kind: str
    title: str
    text: str
    idea: str = ""
    speedup: float | None = None
    line: int = 0


@dataclass(frozen=True)
class LaunchExplained:
    """One launch: its resources, its limiter, and the counters of its source lines.

    ``seconds`` is predicted on ``device``; ``units`` are the busy seconds of each unit, the longest first.
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    registers: int
    shared_bytes: int
    spilled_bytes: int
    occupancy: float | None
    occupancy_by: tuple[str, ...]
    device: str
    seconds: float | None
    limiter: str
    units: tuple[tuple[str, float], ...]
    agrees: str
    agreement: str
    unsupported: str
    sampled: str
    hints: tuple[Advice, ...]
    file: str
    lines: tuple[Line, ...]
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explained:
    """The explanation of one rung at ``case`` and ``dtype`` for ``target``; without launches, ``reason`` is the
    cause.
    """

    case: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    dtype: str = ""
    target: str = ""
    launches: tuple[LaunchExplained, ...] = ()
    reason: str = ""

    @property
    def seconds(self) -> float | None:
        """Predicted seconds of all launches, or None if one has no prediction."""
        times = [launch.seconds for launch in self.launches]
        return sum(time for time in times if time is not None) if times and None not in times else None

    @property
    def hints(self) -> list[Advice]:
        """Every launch's hints."""
        return [hint for launch in self.launches for hint in launch.hints]

    def lines(self, file: Path) -> dict[int, Line]:
        """The counters of ``file`` by line number, summed over launches."""
        found: dict[int, Line] = {}
        for line in self._every():
            if Path(line.file).name == file.name:
                before = found.get(line.number)
                found[line.number] = dataclasses.replace(line, counters=_sum(line, *([before] if before else [])))
        return found

    def whole(self) -> dict[str, float]:
        """The counters of all lines of all files."""
        return _sum(*self._every())

    def elsewhere(self, file: Path) -> dict[str, float]:
        """The share of stall cycles in each file other than ``file``, by name, the largest first."""
        total = self.whole().get("stall_cycles", 0.0)
        found: dict[str, float] = {}
        for line in self._every():
            name = Path(line.file).name
            if name != file.name and total:
                found[name] = found.get(name, 0.0) + line.counters.get("stall_cycles", 0.0) / total
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def _every(self) -> list[Line]:
        return [line for launch in self.launches for line in launch.lines]


def _sum(*lines: Line) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in lines:
        for name, value in line.counters.items():
            found[name] = found.get(name, 0.0) + value
    return found


@dataclass(frozen=True)
class LadderAtPoint:
    """The rungs of one operation to explain, at the size of ``point`` reduced to at most ``MOST_BYTES``.

    The rungs in ``verified`` are counted without a checked run.
    """

    op: Op
    target: str
    point: MeasuredPoint | None = None
    verified: Container[str] = ()


def explain_ladders(
    ladders: Sequence[LadderAtPoint], progress: Callable[[str, str, int, int], None] | None = None
) -> Iterator[tuple[str, dict[str, Explained]]]:
    """Explain every rung that launches a GPU kernel; yield each operation's name and rungs when all of them are done.

    Rungs that are not in the cache are explained on all cores, those of several operations at a time. ``progress`` is
    called with the names of an operation and a rung, the number of the operation's rungs done and their total.
    """
    known = {ladder.op.name: ladder for ladder in ladders}
    chosen = {
        name: [rung.name for rung in ladder.op.rungs if rung.language in ("cuda", "triton")]
        for name, ladder in known.items()
    }
    found: dict[str, dict[str, Explained]] = {name: {} for name in known}

    def made(name: str, rung: str, explained: Explained) -> bool:
        """Keep one explanation; True if it is the operation's last."""
        found[name][rung] = explained
        if progress is not None:
            progress(name, rung, len(found[name]), len(chosen[name]))
        return len(found[name]) == len(chosen[name])

    def ordered(name: str) -> tuple[str, dict[str, Explained]]:
        return name, {rung: found[name][rung] for rung in chosen[name]}

    missing: list[tuple[str, str]] = []
    for name, ladder in known.items():
        left = len(missing)
        for rung in chosen[name]:
            kept = _kept(ladder, rung)
            if kept is not None:
                made(name, rung, kept)
            else:
                missing.append((name, rung))
        if len(missing) == left:
            yield ordered(name)
    for (name, rung), explained in on_all_cores(missing, lambda item: explain_one(known[item[0]], item[1])):
        if made(name, rung, explained):
            yield ordered(name)


def _kept(ladder: LadderAtPoint, name: str) -> Explained | None:
    """The explanation in the cache, or the reason for a rung that does not run on a CPU; None if it must be made."""
    if "cpu" not in ladder.op.rung(name).devices:
        return Explained(target=ladder.target, reason="uses hardware features that cannot be executed on a CPU")
    kept = cache.load(_place(ladder, name)[2])
    return _read(json.loads(kept)) if kept is not None else None


def _place(ladder: LadderAtPoint, name: str) -> tuple[torch.dtype, Case, Path]:
    """The dtype and the case to explain, and the file of the cache."""
    op, point, rung = ladder.op, ladder.point, ladder.op.rung(name)
    known = {dtype_name(dtype): dtype for dtype in op.spec.dtypes if rung.dtypes is None or dtype in rung.dtypes}
    dtype = known[point.dtype if point is not None and point.dtype in known else next(iter(known))]
    case = _within(op, dtype, point)
    key = _key(op, rung, case, dtype, ladder.target, name in ladder.verified)
    return dtype, case, cache.cache_dir() / "report" / f"{key}.bin"


def explain_one(ladder: LadderAtPoint, name: str) -> Explained:
    """The explanation of one rung, which is kept in the cache. An exception becomes the ``reason``.

    A verified rung is not checked again: the page shows its verdict.
    """
    op, target = ladder.op, ladder.target
    dtype, case, path = _place(ladder, name)
    named: dict[str, Any] = {
        "case": case.name, "sizes": dict(case.sizes), "dtype": dtype_name(dtype), "target": target,
    }  # fmt: skip
    checks = "none" if name in ladder.verified else "all"
    try:
        explained = explain_rung(
            op,
            name,
            case,
            dtype,
            target=target,
            budget=BUDGET_S,
            checks=checks,
            arguments=lambda chosen: _arguments(op, chosen, dtype),
        )
        launches = tuple(map(_reduced, explained))
    except KernelError as error:
        return Explained(**named, reason=f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - a user's launcher may raise anything; the page shows it
        return Explained(**named, reason=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
    made = Explained(**named, launches=launches)
    cache.save(path, json.dumps(dataclasses.asdict(made)).encode())
    return made


def _arguments(op: Op, case: Case, dtype: torch.dtype) -> tuple[Any, ...]:
    """The arguments of ``case``, which the rungs of an operation share unless it changes them."""
    if op.spec.parsed.mutated:
        return op.spec.arguments(case, dtype, torch.device("cpu"), 0)
    if not _LATEST or _LATEST[0][:3] != (op, case, dtype):
        _LATEST.clear()
        _LATEST.append((op, case, dtype, op.spec.arguments(case, dtype, torch.device("cpu"), 0)))
    return _LATEST[0][3]


_LATEST: list[tuple[Op, Case, torch.dtype, tuple[Any, ...]]] = []


def _within(op: Op, dtype: torch.dtype, point: MeasuredPoint | None) -> Case:
    """The case of ``point``, or the first size, with its largest sizes halved until it moves at most ``MOST_BYTES``.

    At that size every rung fills a GPU, unlike at the sizes that are quick to check.
    """
    known = {case.name: case for case in op.spec.sizes}
    case = known.get(point.case, op.spec.sizes[0]) if point is not None else op.spec.sizes[0]
    timed = next((one.bytes for one in point.entries if one.bytes), None) if point is not None else None
    if point is not None and timed is not None:
        case, moved = dataclasses.replace(case, name=point.case, sizes=dict(point.sizes)), float(timed)
    else:
        small = checkable(op, dtype)
        cost = op.spec.cost(*op.spec.arguments(small, dtype, torch.device("cpu"), 0))
        moved = float(cost.bytes) * _product(case) / _product(small)
    while moved > MOST_BYTES and (largest := max(case.sizes.values())) > 1:
        sizes = {name: size // 2 if size == largest else size for name, size in case.sizes.items()}
        smaller = dataclasses.replace(
            case, name=",".join(f"{name}={size}" for name, size in sizes.items()), sizes=sizes
        )
        case, moved = smaller, moved * _product(smaller) / _product(case)
    return case


def _product(case: Case) -> int:
    return math.prod(max(1, size) for size in case.sizes.values())


def _key(op: Op, rung: Rung, case: Case, dtype: torch.dtype, target: str, verified: bool) -> str:
    """The cache key of an explanation: the kernel's sources, the case, dtype and target, and the code that explains."""
    folder = rung.source.parent
    beside = [
        cache.key(path.read_bytes())
        for path in (*sorted(folder.glob("*.py")), *sorted(folder.glob("*.cuh")))
        if path.is_file()
    ]
    return cache.key(
        FORMAT,
        warpwise.__version__,
        torch.__version__,
        op.name,
        rung.name,
        case,
        dtype,
        target,
        verified,
        source_digest(rung.source),
        _code(),
        *beside,
    )


@lru_cache(maxsize=1)
def _code() -> str:
    """A digest of the code that explanations depend on."""
    return cache.key(
        *(
            path.read_bytes()
            for package in ("machine", "lab/explain", "cuda", "triton", "device")
            for path in sorted((CODE / package).rglob("*"))
            if path.suffix in (".py", ".cpp", ".h", ".cuh")
        )
    )


def _reduced(one: Explanation) -> LaunchExplained:
    expected, fits, needs = one.prediction, one.occupancy, one.resources
    units = sorted(expected.units.items(), key=lambda item: -item[1])[:UNITS] if expected else []
    hints = tuple(
        Advice(
            hint.kind, hint.title, hint.text, hint.idea, hint.speedup, hint.line if hint.file == one.main_file else 0
        )
        for hint in one.hints
    )
    lines = tuple(dataclasses.replace(line, metrics={}, instructions=()) for line in one.lines)
    return LaunchExplained(
        one.kernel,
        one.grid,
        one.block,
        needs.registers,
        needs.shared,
        needs.spill_stores,
        fits.fraction if fits else None,
        tuple(fits.binding) if fits else (),
        expected.device if expected else "",
        expected.time if expected else None,
        expected.limiter if expected else "",
        tuple(units),
        one.agrees.status,
        one.agrees.text,
        one.unsupported,
        one.sampled,
        hints,
        one.main_file or "",
        lines,
        tuple(one.caveats),
    )


def _read(data: dict[str, Any]) -> Explained:
    launches = tuple(_launch(one) for one in data.pop("launches"))
    return Explained(**data, launches=launches)


def _launch(data: dict[str, Any]) -> LaunchExplained:
    lines = tuple(Line(**{**line, "instructions": ()}) for line in data.pop("lines"))
    hints = tuple(Advice(**hint) for hint in data.pop("hints"))
    units = tuple((str(name), float(seconds)) for name, seconds in data.pop("units"))
    lists: dict[str, Any] = {name: tuple(data.pop(name)) for name in ("grid", "block", "occupancy_by", "caveats")}
    return LaunchExplained(**data, **lists, lines=lines, hints=hints, units=units)
