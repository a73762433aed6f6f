"""Watch a file: verify, explain and time its kernels whenever it is saved, each time in a new process.

The watching process imports the slow modules, runs nothing itself, and forks for each save. The fork loads the current
file, so no state of the previous version remains, and a kernel that crashes ends only the fork.
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
from typing import Any, NamedTuple

import torch

from warpwise.lab.timing.compare import time as timed
from warpwise.lab.timing.environment import place, resolve
from warpwise.lab.verify import verify
from warpwise.lab.verify.verdict import Step, dtype_name
from warpwise.operation import Case, Op, Rung

SETTLED = 0.03  # seconds without a change before a file counts as saved
SEEDS = (0,)
SHARE = 2.0  # seconds to time one rung

Pairs = list[tuple[Op, Rung]]


@dataclass(frozen=True)
class RungState:
    """The state of one rung: ``stage`` is the current activity; times are in seconds, ``modelled`` if predicted, not
    measured.

    ``last`` is the time at the previous save and ``best`` the least of all previous saves.
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
    """The state of all rungs, or the ``error`` that loading the file raised."""

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
        """True if every rung is verified and correct."""
        return not self.error and bool(self.rows) and all(row.status == "right" for row in self.rows)


@dataclass(frozen=True)
class Wanted:
    """What to do at each save: ``load()`` runs in the fork and returns the rungs of the file; each is timed for
    ``timed_s`` s.
    """

    load: Callable[[], Pairs]
    device: str | None = None
    dtypes: Sequence[str] = ()
    explain: bool = True
    timed_s: float = SHARE


Signature = tuple[tuple[str, int, int, int], ...]


def signature(paths: Iterable[Path]) -> Signature:
    """A value that changes when one of the files is written or replaced; missing files are left out."""
    found = []
    for path in sorted(set(paths)):
        try:
            status = path.stat()
        except OSError:
            continue
        found.append((str(path), status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


class Watch:
    """A watched file; ``update`` advances the work and returns whether ``board`` has changed."""

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
        """Restart if the file was saved; else receive the fork's messages, waiting up to ``wait`` seconds."""
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
        """End the running fork, if any."""
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
            warnings.simplefilter("ignore", DeprecationWarning)  # the fork does not need the idle threads of libraries
            self._process.start()
        theirs.close()

    def _ended(self) -> None:
        """Handle the end of the fork, regular or by a crash."""
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

    def _take(self, what: str, values: dict[str, Any]) -> None:
        if what == "rungs":
            self._paths |= set(values.pop("sources"))
            self._seen = signature(self._paths)
            rows = tuple(self._row(name, idea) for name, idea in values.pop("rungs"))
            self.board = replace(self.board, rows=rows, **values)
        elif what == "error":
            self.board = replace(self.board, error=values["text"])
        else:
            self.board = replace(
                self.board,
                rows=tuple(
                    self._changed(row, values) if row.rung == values["rung"] else row for row in self.board.rows
                ),
            )
        if self.board.verdict_after is None and self.board.rows and all(row.status for row in self.board.rows):
            self.board = replace(self.board, verdict_after=self._clock() - self._started)

    def _row(self, name: str, idea: str) -> RungState:
        before = self._earlier.get(name)
        if before is None:
            return RungState(name, idea, stage="waiting")
        known = [seconds for seconds in (before.seconds, before.best) if seconds]
        return RungState(name, idea, stage="waiting", last=before.seconds or before.last, best=min(known, default=None))

    def _changed(self, row: RungState, values: dict[str, Any]) -> RungState:
        row = replace(row, **values)
        if "failed" in values:
            self._failed[row.rung] = row.failed
        return row


def _work(connection: Connection, wanted: Wanted, failed: dict[str, tuple[str, ...]]) -> None:
    """The fork: load, verify every rung, then explain and time the correct ones. Each result is sent at once."""
    try:
        pairs = wanted.load()
        device = resolve(wanted.device)
        jobs = _jobs(pairs, wanted.dtypes)
        values: dict[str, Any] = {
            "rungs": [(job.label, job.rung.idea) for job in jobs],
            "sources": [job.rung.source for job in jobs],
            "place": place(device),
            "dtypes": ", ".join(dict.fromkeys(dtype_name(dtype) for job in jobs for dtype in job.dtypes)),
        }
        connection.send(("rungs", values))
        # Rungs that failed at the previous save come first.
        order = sorted(jobs, key=lambda job: not failed.get(job.label))
        right = [job for job in order if _verified(connection, job, device, failed.get(job.label, ()))]
        for job in right:
            if wanted.explain and job.rung.language in ("cuda", "triton"):
                _explained(connection, job, device.type == "cpu")
            if device.type == "cuda" or job.rung.language in ("c", "python"):
                _timed(connection, job, device, wanted.timed_s)
            connection.send(("row", {"rung": job.label, "stage": ""}))
    except (BrokenPipeError, KeyboardInterrupt):
        return
    except Exception as error:  # noqa: BLE001 - any error in the file is shown, and watching continues
        connection.send(("error", {"text": _error_text(error)}))


def _error_text(error: Exception) -> str:
    """The error's message; for errors without a source position, with the innermost line of the traceback."""
    text = getattr(error, "message", "") or f"{type(error).__name__}: {error}"
    if hasattr(error, "message") or not error.__traceback__:
        return str(text)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text} (at {Path(last.filename).name}:{last.lineno})"


class _Job(NamedTuple):
    """A rung, its name on the page, which is unique there, and the dtypes to verify. The first is also timed."""

    label: str
    op: Op
    rung: Rung
    dtypes: list[torch.dtype]


def _jobs(pairs: Pairs, names: Sequence[str]) -> list[_Job]:
    """The jobs of these rungs for the dtypes in ``names``, by default the first one of each operation.

    Labels are "op:rung" if there are several operations. A rung whose operation has none of the dtypes has no job.

    Raises ``ValueError`` for a dtype that none of the operations has.
    """
    ops = list({op.name: op for op, _ in pairs}.values())
    known = dict.fromkeys(dtype_name(dtype) for op in ops for dtype in op.spec.dtypes)
    for name in names:
        if name not in known and name != "all":
            raise ValueError(f"{', '.join(op.name for op in ops)}: no dtype {name!r}; there are {', '.join(known)}")
    jobs = []
    for op, rung in pairs:
        taken = [dtype for dtype in op.spec.dtypes if "all" in names or dtype_name(dtype) in names]
        label = rung.name if len(ops) == 1 else f"{op.spec.name}:{rung.name}"
        if taken or not names:
            jobs.append(_Job(label, op, rung, taken or [op.spec.dtypes[0]]))
    return jobs


def _verified(connection: Connection, job: _Job, device: torch.device, failed: Sequence[str]) -> bool:
    """Verify one rung and send the verdict; cases that failed at the previous save come first."""
    op, rung = job.op, job.rung
    cases: list[Case] = sorted(op.spec.cases, key=lambda case: case.name not in failed)

    def progress(step: Step) -> None:
        if step.stage == "shrink":
            connection.send(
                ("row", {"rung": job.label, "status": "wrong", "stage": f"shrinking a failure: {step.detail}"})
            )
        elif step.result is None:
            connection.send(("row", {"rung": job.label, "stage": f"{step.stage} {step.detail}"}))

    verdict = verify(op, rung, device=device, dtypes=job.dtypes, cases=cases, seeds=SEEDS, progress=progress)
    message = str(verdict.failures[0]) if verdict.failures else ""
    if verdict.status == "untested":
        message = "; ".join(sorted({result.reason for result in verdict.cases if result.reason}))
    values = {
        "rung": job.label, "status": verdict.status, "stage": "", "message": message, "seconds": None, "hint": "",
        "failed": tuple(dict.fromkeys(failure.case.name for failure in verdict.failures)),
    }  # fmt: skip
    connection.send(("row", values))
    return verdict.right


def _explained(connection: Connection, job: _Job, modelled: bool) -> None:
    """Send the hint with the largest speed-up and, with ``modelled``, the predicted time of all launches."""
    from warpwise.lab.explain import explain_rung

    connection.send(("row", {"rung": job.label, "stage": "explaining"}))
    try:
        found = list(explain_rung(job.op, job.rung, dtype=job.dtypes[0]))
    except Exception as error:  # noqa: BLE001 - a kernel that cannot be explained is still verified
        connection.send(
            ("row", {"rung": job.label, "hint": f"not explained: {_error_text(error).partition(chr(10))[0]}"})
        )
        return
    hints = [hint for one in found for hint in one.hints]
    values: dict[str, Any] = {"rung": job.label, "hint": ""}
    if hints:
        values["hint"] = str(max(hints, key=lambda hint: (hint.kind == "OPT", hint.speedup or 0.0)))
    predictions = [one.prediction for one in found]
    if modelled and predictions and all(prediction is not None for prediction in predictions):
        values |= {"seconds": sum(prediction.time for prediction in predictions if prediction), "modelled": True}
    connection.send(("row", values))


def _timed(connection: Connection, job: _Job, device: torch.device, budget: float) -> None:
    """Time the rung at the operation's first size."""
    connection.send(("row", {"rung": job.label, "stage": "timing"}))
    args = job.op.spec.arguments(job.op.spec.sizes[0], job.dtypes[0], device, 0)
    outputs = job.op.allocate(*args)

    def launch(*given: Any) -> None:
        job.op.launch(job.rung, outputs, *given)

    timing = timed(launch, *args, device=device, budget_s=budget)
    connection.send(("row", {"rung": job.label, "seconds": timing.median, "modelled": False}))
