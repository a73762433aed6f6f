"""Resolve ``last~1``, a run's id, a commit, a date or a results file to measurements."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from warpwise.lab.store.comparison import newest
from warpwise.lab.store.convert import OtherFile, read_results
from warpwise.lab.store.provenance import in_repository, resolved
from warpwise.lab.store.records import Measurement, Run
from warpwise.lab.store.store import RUN_ID, Store

_NONE = "there is no such run: `warpwise history` lists all runs"

LAST = re.compile(r"last(?:~(\d+))?")
COMMIT = re.compile(r"[0-9a-f]{4,40}")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
FORMS = (
    "a run's id (r12), last, last~1, a git commit (4f0c2d1, HEAD~1), a date (2026-11-20), a results file (.json) or a "
    "folder of such files"
)


class UnknownSelection(LookupError):
    """The selection names nothing in the store; the message lists what is available."""


@dataclass(frozen=True)
class Selection:
    """Measurements, their runs, and a label."""

    text: str
    label: str
    runs: tuple[Run, ...]
    measurements: tuple[Measurement, ...]


def moment(text: str) -> datetime:
    """The time of ``2026-11-20`` or ``2026-11-20T15:30``, UTC unless it has an offset. Raises ``ValueError``."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def is_file(text: str) -> bool:
    """True if ``text`` is a results file or a folder, which needs no store."""
    return text.endswith(".json") or "/" in text or Path(text).is_dir()


def from_files(text: str) -> Selection:
    """The measurements of a results file, or of all those in a folder. Raises ``UnreadableResults``,
    ``UnknownSelection``.
    """
    path = Path(text)
    if not path.exists():
        raise UnknownSelection(f"{text}: no such file")
    runs, measurements = [], []
    for each in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        try:
            run, found, _ = read_results(each)
        except OtherFile:
            if each == path:
                raise
            continue
        runs.append(replace(run, id=each.name))
        measurements += [replace(one, op=run.op, device=run.device, run=each.name) for one in found]
    if not runs:
        raise UnknownSelection(f"{text}: no results file of `warpwise climb --json` is in it")
    return Selection(text, text, tuple(runs), tuple(measurements))


def select(store: Store, text: str, ops: Sequence[str] = (), device: str | None = None) -> Selection:
    """Resolve ``text``, limited to ``ops`` and ``device`` if given.

    ``last`` is the last run of each operation on each device, ``last~1`` the one before it. A commit selects the newest
    measurement of each entry at that commit, a date the newest one up to the end of that day or to that time.
    """
    runs = [run for run in store.runs(device=device) if not ops or run.op in ops]
    if match := LAST.fullmatch(text):
        chosen = _nth(runs, int(match[1] or 0))
        return _of_runs(store, text, text, chosen, _NONE)
    if RUN_ID.fullmatch(text):
        run = store.run(text)
        chosen = [run] if run and run in runs else []
        return _of_runs(store, text, text, chosen, _nearest(text, [run.id for run in runs]))
    if DATE.match(text):
        return _as_of(store, text, runs)
    commit = text if COMMIT.fullmatch(text) else resolved(text)
    if commit:
        return _at_commit(store, text, [run for run in runs if run.commit and run.commit[:12].startswith(commit[:12])])
    where = "" if in_repository() else f"; {Path.cwd()} is in no git repository, so no branch, tag or HEAD~1 is known"
    raise UnknownSelection(f"{text!r}: expected {FORMS}{where}")


def _nth(runs: Sequence[Run], back: int) -> list[Run]:
    """For each operation and device, the run ``back`` before the last; ``runs`` are newest first."""
    seen: dict[tuple[str, str], int] = {}
    chosen = []
    for run in runs:
        position = seen.get((run.op, run.device), 0)
        seen[run.op, run.device] = position + 1
        if position == back:
            chosen.append(run)
    return chosen


def _nearest(text: str, ids: Sequence[str]) -> str:
    near = difflib.get_close_matches(text, ids, 3)
    return f"there is no such run; similar ids are {', '.join(near)}" if near else _NONE


def _of_runs(store: Store, text: str, label: str, runs: Sequence[Run], otherwise: str) -> Selection:
    if not runs:
        raise UnknownSelection(f"{text}: {otherwise}")
    found = [measurement for run in runs for measurement in store.measurements(run=run.id)]
    return Selection(text, label, tuple(runs), tuple(newest(found).values()))


def _as_of(store: Store, text: str, runs: Sequence[Run]) -> Selection:
    try:
        until = moment(text) + (timedelta(days=1) if DATE.fullmatch(text) else timedelta(microseconds=1))
    except ValueError as error:
        raise UnknownSelection(f"{text}: expected a date like 2026-11-20 or 2026-11-20T15:30, {error}") from error
    allowed = {run.id: run for run in runs}
    found = newest(one for one in store.measurements(until=until) if one.run in allowed)
    if not found:
        raise UnknownSelection(f"{text}: there are no measurements up to that time")
    named = sorted({one.run for one in found.values()}, key=lambda run_id: int(run_id[1:]))
    return Selection(text, f"as of {text}", tuple(allowed[run_id] for run_id in named), tuple(found.values()))


def _at_commit(store: Store, text: str, runs: Sequence[Run]) -> Selection:
    commits = sorted({run.commit[:12] for run in runs})
    if len(commits) > 1:
        raise UnknownSelection(
            f"{text}: {len(commits)} commits start with it: {', '.join(commit[:12] for commit in commits)}"
        )
    clean = [run for run in runs if not run.dirty]
    note = "" if clean else ", with uncommitted changes"
    return _of_runs(store, text, f"commit {text}{note}", clean or runs, "no run was made at that commit")
