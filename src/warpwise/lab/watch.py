"""The inner loop: a kernel verified, explained and timed anew whenever its file is saved, each time in a process of its own.

The process that watches imports what takes seconds to import, runs nothing itself, and forks for each save: the fork
loads the file as it now is, so that nothing of the version before is left, and a kernel that crashes takes only it down.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from warpwise.lab.timing.compare import time as timed
from warpwise.lab.timing.environment import place, resolve
from warpwise.lab.verdict import Step, dtype_name
from warpwise.lab.verify import verify
from warpwise.registry import Case, Op, Rung

SETTLED = 0.03  # seconds that a file stays as it is before it counts as saved
SEEDS = (0,)
SHARE = 2.0  # seconds to time a rung for

Pairs = list[tuple[Op, Rung]]


@dataclass(frozen=True)
class RungState:
    """One rung as it stands: ``stage`` is what goes on; times are seconds, ``modelled`` by the model of explain if nothing was timed.

    ``last`` is the time of the save before this one and ``best`` the least of all saves before it.
    """

    rung: str
    idea: str = ""
    status: str = ""
    stage: str = ""
    message: str = ""
    failed: tuple[str, ...] = ()
    seconds: float | None = None
    modelled: bool = False
    last: float | None = None
    best: float | None = None
    hint: str = ""


@dataclass(frozen=True)
class Board:
    """What there is to show: a row a rung, or the ``error`` for which the file could not be loaded."""

    file: Path
    rows: tuple[RungState, ...] = ()
    place: str = ""
    dtypes: str = ""
    error: str = ""
    saves: int = 0
    verdict_after: float | None = None
    working: bool = True

    @property
    def right(self) -> bool:
        """Whether everything is verified and right."""
        return not self.error and bool(self.rows) and all(row.status == "right" for row in self.rows)


@dataclass(frozen=True)
class Wanted:
    """What to do at each save: ``load()`` runs in the fork and finds the rungs that the file means; each is timed ``timed_s`` seconds."""

    load: Callable[[], Pairs]
    device: str | None = None
    dtypes: Sequence[str] = ()
    explain: bool = True
    timed_s: float = SHARE


Signature = tuple[tuple[str, int, int, int], ...]


def signature(paths: Iterable[Path]) -> Signature:
    """What changes when one of the files is written, or replaced as editors do; a file that is not there is left out."""
    found = []
    for path in sorted(set(paths)):
        try:
            status = path.stat()
        except OSError:
            continue
        found.append((str(path), status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


class Watch:
    """A file watched; ``update`` does what there is to do and says whether ``board`` has changed."""

    def __init__(self, file: Path, wanted: Wanted, clock: Callable[[], float] = time.perf_counter) -> None:
        self.board = Board(file)
        self._wanted, self._clock = wanted, clock
        self._paths = {file}
        self._seen: Signature = ()
        self._process: Any = None
        self._connection: Connection | None = None
        self._started = 0.0
        self._failed: dict[str, tuple[str, ...]] = {}
        self._earlier: dict[str, RungState] = {}

    def update(self, wait: float = 0.1) -> bool:
        """Start anew if the file was saved; else take in what the fork at work says, waiting for it up to ``wait`` seconds."""
        now = signature(self._paths)
        if now != self._seen and now:
            time.sleep(SETTLED)
            if signature(self._paths) == now:
                self._seen = now
                self._start()
                return True
            return False
        if self._connection is None:
            time.sleep(wait)
            return False
        changed = False
        try:
            while self._connection.poll(0 if changed else wait):
                self._take(*self._connection.recv())
                changed = True
        except (EOFError, OSError):
            self._ended()
            changed = True
        return changed

    def close(self) -> None:
        """End the fork at work, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None

    def _start(self) -> None:
        self.close()
        self._started = self._clock()
        self._earlier = {row.rung: row for row in self.board.rows} or self._earlier
        rows = tuple(replace(row, stage="waiting") for row in self.board.rows)
        self.board = replace(
            self.board, rows=rows, error="", saves=self.board.saves + 1, verdict_after=None, working=True
        )
        context = multiprocessing.get_context("fork")
        self._connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(theirs, self._wanted, dict(self._failed)), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # libraries' idle threads, which the fork does without
            self._process.start()
        theirs.close()

    def _ended(self) -> None:
        """The fork is gone: done, or crashed."""
        code = None
        if self._process is not None:
            self._process.join()
            code = self._process.exitcode
        self.close()
        error = self.board.error or (
            f"the process ended with {code}: the kernel or its launch crashed it" if code else ""
        )
        rows = tuple(replace(row, stage="") for row in self.board.rows)
        self.board = replace(self.board, rows=rows, error=error, working=False)

    def _take(self, what: str, told: dict[str, Any]) -> None:
        if what == "rungs":
            self._paths |= set(told.pop("sources"))
            self._seen = signature(self._paths)
            rows = tuple(self._row(name, idea) for name, idea in told.pop("rungs"))
            self.board = replace(self.board, rows=rows, **told)
        elif what == "error":
            self.board = replace(self.board, error=told["text"])
        else:
            self.board = replace(
                self.board,
                rows=tuple(self._changed(row, told) if row.rung == told["rung"] else row for row in self.board.rows),
            )
        if self.board.verdict_after is None and self.board.rows and all(row.status for row in self.board.rows):
            self.board = replace(self.board, verdict_after=self._clock() - self._started)

    def _row(self, name: str, idea: str) -> RungState:
        before = self._earlier.get(name)
        if before is None:
            return RungState(name, idea, stage="waiting")
        known = [seconds for seconds in (before.seconds, before.best) if seconds]
        return RungState(name, idea, stage="waiting", last=before.seconds or before.last, best=min(known, default=None))

    def _changed(self, row: RungState, told: dict[str, Any]) -> RungState:
        row = replace(row, **told)
        if "failed" in told:
            self._failed[row.rung] = row.failed
        return row


def _work(connection: Connection, wanted: Wanted, failed: dict[str, tuple[str, ...]]) -> None:
    """The fork: load, verify every rung, then explain and time those that are right. Says what it knows as soon as it knows it."""
    try:
        pairs = wanted.load()
        device = resolve(wanted.device)
        op = pairs[0][0]
        dtypes = _dtypes(op, wanted.dtypes)
        told: dict[str, Any] = {
            "rungs": [(rung.name, rung.idea) for _, rung in pairs], "sources": [rung.source for _, rung in pairs],
            "place": place(device), "dtypes": ", ".join(dtype_name(dtype) for dtype in dtypes),
        }  # fmt: skip
        connection.send(("rungs", told))
        # Whoever failed last comes first.
        order = sorted(pairs, key=lambda pair: not failed.get(pair[1].name))
        right = [
            (op, rung)
            for op, rung in order
            if _verified(connection, op, rung, device, dtypes, failed.get(rung.name, ()))
        ]
        for op, rung in right:
            if wanted.explain and rung.language in ("cuda", "triton"):
                _explained(connection, op, rung, dtypes[0], device.type == "cpu")
            if device.type == "cuda" or rung.language in ("c", "python"):
                _timed(connection, op, rung, device, dtypes[0], wanted.timed_s)
            connection.send(("row", {"rung": rung.name, "stage": ""}))
    except (BrokenPipeError, KeyboardInterrupt):
        return
    except Exception as error:  # noqa: BLE001 - whatever the file does wrong is shown, and watching goes on
        connection.send(("error", {"text": _said(error)}))


def _said(error: Exception) -> str:
    """The message, with the innermost line of the traceback for what has no place of its own in it."""
    text = getattr(error, "message", "") or f"{type(error).__name__}: {error}"
    if hasattr(error, "message") or not error.__traceback__:
        return str(text)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text} (at {Path(last.filename).name}:{last.lineno})"


def _dtypes(op: Op, names: Sequence[str]) -> list[torch.dtype]:
    known = {dtype_name(dtype): dtype for dtype in op.spec.dtypes}
    if not names:
        return [op.spec.dtypes[0]]
    if "all" in names:
        return list(known.values())
    for name in names:
        if name not in known:
            raise ValueError(f"{op.name}: no dtype {name!r}; there are {', '.join(known)}")
    return [known[name] for name in names]


def _verified(
    connection: Connection,
    op: Op,
    rung: Rung,
    device: torch.device,
    dtypes: Sequence[torch.dtype],
    failed: Sequence[str],
) -> bool:
    """Verify one rung, the cases first that failed last, and say how it went; early, as soon as a failure is shrunk."""
    cases: list[Case] = sorted(op.spec.cases, key=lambda case: case.name not in failed)

    def progress(step: Step) -> None:
        if step.stage == "shrink":
            connection.send(
                ("row", {"rung": rung.name, "status": "wrong", "stage": f"shrinking a failure: {step.detail}"})
            )
        elif step.result is None:
            connection.send(("row", {"rung": rung.name, "stage": f"{step.stage} {step.detail}"}))

    verdict = verify(op, rung, device=device, dtypes=dtypes, cases=cases, seeds=SEEDS, progress=progress)
    message = str(verdict.failures[0]) if verdict.failures else ""
    if verdict.status == "untested":
        message = "; ".join(sorted({result.reason for result in verdict.cases if result.reason}))
    told = {
        "rung": rung.name, "status": verdict.status, "stage": "", "message": message, "seconds": None, "hint": "",
        "failed": tuple(dict.fromkeys(failure.case.name for failure in verdict.failures)),
    }  # fmt: skip
    connection.send(("row", told))
    return verdict.right


def _explained(connection: Connection, op: Op, rung: Rung, dtype: torch.dtype, modelled: bool) -> None:
    """The hint that promises most and, if nothing will be timed, the time that the model predicts for all launches."""
    from warpwise.lab.explain import explain_rung

    connection.send(("row", {"rung": rung.name, "stage": "explaining"}))
    try:
        found = list(explain_rung(op, rung, dtype=dtype))
    except Exception as error:  # noqa: BLE001 - a kernel that cannot be explained is still verified
        connection.send(("row", {"rung": rung.name, "hint": f"not explained: {_said(error).partition(chr(10))[0]}"}))
        return
    hints = [hint for one in found for hint in one.hints]
    told: dict[str, Any] = {"rung": rung.name, "hint": ""}
    if hints:
        told["hint"] = str(max(hints, key=lambda hint: (hint.kind == "OPT", hint.speedup or 0.0)))
    predictions = [one.prediction for one in found]
    if modelled and predictions and all(prediction is not None for prediction in predictions):
        told |= {"seconds": sum(prediction.time for prediction in predictions if prediction), "modelled": True}
    connection.send(("row", told))


def _timed(connection: Connection, op: Op, rung: Rung, device: torch.device, dtype: torch.dtype, budget: float) -> None:
    """The rung's time at the operation's first size."""
    connection.send(("row", {"rung": rung.name, "stage": "timing"}))
    args = op.spec.inputs(op.spec.sizes[0], dtype, device, 0)
    outputs = op.spec.outputs(*args)

    def launch(*given: Any) -> None:
        op.launch(rung, outputs, *given)

    timing = timed(launch, *args, device=device, budget_s=budget)
    connection.send(("row", {"rung": rung.name, "seconds": timing.median, "modelled": False}))
