"""Run a script as ``__main__`` under torch's profiler."""

from __future__ import annotations

import contextlib
import runpy
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from warpwise.lab.profile.record import ProfileError, ProfileRecorder, trace_paths
from warpwise.lab.profile.result import ProfileResult
from warpwise.lab.profile.schedule import Schedule
from warpwise.lab.timing.environment import place, resolve


def profile_script(
    path: Path | str,
    argv: Sequence[str] = (),
    *,
    schedule: Schedule | Iterable[int] | str | None = None,
    trace: Path | str | None = None,
    shapes: bool = False,
    stacks: bool = False,
) -> ProfileResult:
    """Run the Python file ``path`` as ``python path *argv`` would, under torch's profiler.

    Without a ``schedule`` all of it is recorded. With one, a step ends with the ``step()`` of any torch optimizer. The
    profile is returned even if the script fails; ``failure`` then holds the traceback. Raises ``ProfileError`` before
    anything runs if there is no such file or the trace cannot be written.
    """
    script = Path(path)
    if not script.is_file():
        raise ProfileError(f"profile: no file {script}")
    plan = None if schedule is None else Schedule.of(schedule)
    recorder = ProfileRecorder(plan, trace_paths(trace, plan.repeat if plan else 1), shapes=shapes, stacks=stacks)
    failure = ""
    with recorder, as_main(script, argv), _stepping(recorder):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as error:
            if error.code not in (None, 0):
                failure = f"SystemExit: {error.code}"
        except Exception as error:  # noqa: BLE001 - an exception of the script is reported in the profile
            failure = _traceback(error)
    result = recorder.result(script.name, place(resolve(None)))
    if plan is not None and recorder.stepped == 0:
        note = "the script called no optimizer's step(), which ends a step; without a schedule all of it is recorded"
        result = replace(result, notes=(*result.notes, note))
    return replace(result, failure=failure)


def _traceback(error: Exception) -> str:
    """The traceback, starting at the script's frames."""
    trail = error.__traceback__
    while trail is not None and (
        trail.tb_frame.f_code.co_filename == __file__ or "runpy" in trail.tb_frame.f_code.co_filename
    ):
        trail = trail.tb_next
    return "".join(traceback.format_exception(type(error), error, trail))


@contextlib.contextmanager
def as_main(script: Path, argv: Sequence[str]) -> Iterator[None]:
    """Set ``sys.argv`` and ``sys.path[0]`` as for a script."""
    before, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *argv]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before, path


@contextlib.contextmanager
def _stepping(recorder: ProfileRecorder) -> Iterator[None]:
    """Advance the recorder with every optimizer's step."""

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        recorder.step()

    hook = register_optimizer_step_post_hook(stepped)
    try:
        yield
    finally:
        hook.remove()
