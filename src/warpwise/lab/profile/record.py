"""``profile``: run a callable step by step under torch's profiler with a schedule, and write its trace atomically."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, final

import torch

from warpwise import cache
from warpwise.lab.profile.result import ProfileResult, rows_of
from warpwise.lab.profile.schedule import Schedule
from warpwise.lab.timing.environment import current, place, resolve

ENDINGS = (".pt.trace.json.gz", ".pt.trace.json", ".json.gz", ".json")


class ProfileError(ValueError):
    """The request cannot be profiled, or its trace cannot be written; nothing has run."""


def profile(
    function: Callable[..., Any],
    *args: Any,
    schedule: Schedule | Iterable[int] | str = (1, 1, 2, 1),
    trace: Path | str | None = None,
    steps: int | None = None,
    device: torch.device | str | None = None,
    shapes: bool = False,
    stacks: bool = False,
    name: str | None = None,
) -> ProfileResult:
    """Call ``function(*args)`` once per step under torch's profiler; return a table, and optionally write a Chrome
    trace.

    ``function`` is any callable: a kernel's launcher, a module, a whole training step. ``schedule`` is (wait, warm-up,
    active, repeat); ``steps`` is the number of calls, by default that of the schedule. GPU kernels are recorded on a
    machine with a GPU, CPU work on any, including emulated rungs. Rungs and ranges of ``warpwise.ranges.named`` appear
    under their names. ``shapes`` records the operators' input shapes and ``stacks`` the Python lines. ``device``
    is by default that of the tensors among ``args``, ``name`` that of the function.

    ``trace`` is a file for Perfetto and ``chrome://tracing``, and for TensorBoard if it ends in ``.pt.trace.json``; if
    the schedule repeats, there is a numbered file per repetition. It is renamed into place when complete. Ctrl-C ends
    the run and returns what was recorded; an exception of ``function`` is re-raised after its trace is written.

    Raises ``ProfileError`` before anything runs if the trace cannot be written or no step would be recorded, and
    ``ValueError`` for a bad schedule.
    """
    plan = Schedule.of(schedule)
    count = plan.steps if steps is None else steps
    if count <= plan.wait + plan.warmup:
        raise ProfileError(
            f"profile: {count} steps record nothing: schedule {plan} waits and warms up for {plan.wait + plan.warmup}"
        )
    where = _device(device, args)
    paths = trace_paths(trace, plan.repeat)
    recorder = ProfileRecorder(plan, paths, shapes=shapes, stacks=stacks)
    with current(where), recorder:
        for _ in range(count):
            function(*args)
            recorder.step()
    return recorder.result(name or named(function), place(where))


def named(function: Callable[..., Any]) -> str:
    """The name of a callable, or of its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def _device(device: torch.device | str | None, args: Sequence[Any]) -> torch.device:
    found = next((value.device for value in args if isinstance(value, torch.Tensor)), None)
    return resolve(device if device is not None else found)


def trace_paths(trace: Path | str | None, repeat: int) -> tuple[Path, ...]:
    """A writable path for each repetition: ``t.json``, or ``t.1.json``, ``t.2.json`` if there are several.

    Raises ``ProfileError`` with the reason if a path cannot be written.
    """
    if trace is None:
        return ()
    path = Path(trace).expanduser()
    if not path.name.endswith(ENDINGS):
        raise ProfileError(f"trace {path}: expected a name that ends in {', '.join(ENDINGS)}")
    if path.is_dir():
        raise ProfileError(f"trace {path}: is a folder; name a file in it, such as {path / 'trace.json'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ProfileError(f"trace {path}: cannot be written: {error.filename} is a file, not a folder") from error
    except OSError as error:
        raise ProfileError(f"trace {path}: cannot be written: {error.filename}: {error.strerror}") from error
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ProfileError(f"trace {path}: cannot be written: {error.strerror or error}") from error
    if repeat == 1:
        return (path,)
    ending = next(ending for ending in ENDINGS if path.name.endswith(ending))
    stem = path.name.removesuffix(ending)
    return tuple(path.with_name(f"{stem}.{cycle}{ending}") for cycle in range(1, repeat + 1))


@final
class ProfileRecorder:
    """A profiler for each repetition of ``schedule``, advanced by ``step``; without a schedule, one that records
    everything.

    A context manager: on any exit it writes the traces. It suppresses KeyboardInterrupt.
    """

    def __init__(
        self, schedule: Schedule | None, paths: Sequence[Path] = (), *, shapes: bool = False, stacks: bool = False
    ) -> None:
        self.schedule, self.paths = schedule, tuple(paths)
        self.written: list[Path] = []
        self.interrupted = False
        self.notes: list[str] = []
        self.stepped = 0
        self._shapes, self._stacks = shapes, stacks
        self._averages: list[list[Any]] = []
        self._profiler: torch.profiler.profile | None = None
        self._seconds = self._started = 0.0

    def __enter__(self) -> ProfileRecorder:
        self._started = time.perf_counter()
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> bool:
        self.interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        try:
            self._end()
        finally:
            self._seconds = time.perf_counter() - self._started
        return self.interrupted

    def step(self) -> None:
        """Mark the end of one step."""
        self.stepped += 1
        if self._profiler is None or self.schedule is None:
            return
        self._profiler.step()
        each = self.schedule.wait + self.schedule.warmup + self.schedule.active
        if self.stepped % each == 0:
            self._end()
            if self.stepped < self.schedule.steps:
                self._begin()

    def _begin(self) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        plan = None
        if self.schedule is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a note reports a missing warm-up
                plan = torch.profiler.schedule(
                    wait=self.schedule.wait, warmup=self.schedule.warmup, active=self.schedule.active, repeat=1
                )
            if self.schedule.warmup == 0 and not self.notes:
                self.notes.append("no warm-up step: the first recorded step includes the profiler's start-up")
        self._profiler = torch.profiler.profile(
            activities=activities,
            schedule=plan,
            on_trace_ready=self._ready,
            record_shapes=self._shapes,
            with_stack=self._stacks,
            profile_memory=True,
            acc_events=True,  # one cycle per profiler; otherwise torch warns that it clears the events
        )
        self._profiler.start()

    def _end(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.stop()

    def _ready(self, profiler: torch.profiler.profile) -> None:
        self._averages.append(list(profiler.key_averages()))
        if len(self.written) < len(self.paths):
            path = self.paths[len(self.written)]
            export(profiler, path)
            self.written.append(path)

    def result(self, name: str, where: str) -> ProfileResult:
        """The recorded profile, under ``name``."""
        table, steps = rows_of(self._averages)
        if self.schedule is None:
            steps = 1
        elif not self._averages:
            self.notes.append(f"nothing was recorded: ended after {self.stepped} steps, before the first active one")
        return ProfileResult(
            name,
            where,
            self.schedule,
            steps,
            table,
            self._seconds,
            tuple(self.written),
            self.interrupted,
            tuple(self.notes),
        )


def export(profiler: torch.profiler.profile, path: Path) -> None:
    """Write the trace, so that readers see all of it or none."""
    with cache.replacing(path, ".json.gz" if path.name.endswith(".gz") else ".json") as temporary:
        profiler.export_chrome_trace(str(temporary))
