"""``warpwise report``: one HTML page for each operation, from recorded results, the results store or a new climb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from warpwise import lab, operation
from warpwise.cli.console import failed, wide_console
from warpwise.cli.kept import open_store
from warpwise.cli.targets import find_ops, known_ops
from warpwise.lab import report as pages
from warpwise.lab.verify.verdict import Step
from warpwise.operation import Op

ALL = "all"


def report(
    names: Sequence[str],
    folder: Path,
    given: Sequence[Path],
    device: str | None,
    fresh: bool,
    budget: float,
    explain: bool,
) -> int:
    """Run ``warpwise report``, with the options of ``warpwise.cli.commands.report``."""
    console = wide_console()
    every = not names or ALL in names
    asked = (
        {name: name for name in known_ops()} if every else {op.name: name for name in names for op in find_ops(name)}
    )
    ops = [operation.get(name) for name in asked]
    try:
        pages.require_library()
        pages.require_folder(folder)
    except pages.MissingLibrary as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.BadParameter(f"{folder}: cannot be written: {error}", param_hint="-o") from error
    climbed = {op.name: _climb(console, op, budget) for op in ops} if fresh else {}
    found = _collected(asked, given, climbed, device, every)
    try:
        with console.status("explaining: seconds a rung, then cached" if explain else "drawing") as status:

            def show(text: str) -> None:
                if console.is_terminal:
                    status.update(escape(text))
                else:
                    _line(console, text)

            def explaining(name: str, rung: str, done: int, of: int) -> None:
                show(f"{name}: explained {rung} ({done} of {of})")

            explained = pages.explain_ladders([_ladder(one) for one in found], explaining) if explain else None
            made = pages.write(found, folder, explained, lambda name: show(f"drawing {name}"))
    except OSError as error:
        raise click.ClickException(f"{folder}: not all pages could be written: {error}") from error
    for one, path in zip(found, made[1:], strict=True):
        console.print(f"{escape(str(path))}  [dim]{escape(_summary(one))}[/]", soft_wrap=True)
    console.print(f"[bold]{escape(str(made[0]))}[/]", soft_wrap=True)
    return 0


def _summary(one: pages.Collected) -> str:
    if not one.points:
        return "no times: verdicts and predictions"
    newest = max(point.run.started for point in one.points)
    return f"{len(one.points)} sizes and dtypes on {one.device}, {newest:%Y-%m-%d}"


def _collected(
    asked: Mapping[str, str],
    given: Sequence[Path],
    climbed: Mapping[str, pages.RecordedRun],
    device: str | None,
    every: bool,
) -> list[pages.Collected]:
    """The results of each operation in ``asked``; with ``every``, operations without results are skipped."""
    ops = [operation.get(name) for name in asked]
    sources = _files(given) if given else [*_files(), *_kept(ops)]
    found, missing = [], []
    for op in ops:
        own = [climbed[op.name]] if op.name in climbed else []
        if not own and not any(source.run.op == op.name for source in sources):
            missing.append(f"{op.name}: no recorded results; `warpwise climb {asked[op.name]}` or --climb makes them")
            continue
        try:
            found.append(pages.collect(op, [*own, *sources], device))
        except pages.NothingRecorded as error:
            missing.append(str(error))
    if missing and not (every and found):  # skip operations without results
        raise click.ClickException("\n".join(missing))
    return found


def _files(given: Sequence[Path] = ()) -> list[pages.RecordedRun]:
    """The results in the given files and folders, or the recorded results."""
    files = [path for path in given if path.is_file()]
    folders = [path for path in given if path.is_dir()]
    found = []
    try:
        for path in [*files, *(pages.recorded_files(folders=folders or None) if folders or not files else [])]:
            source = pages.read_file(path)
            if source is not None:
                found.append(source)
            elif path in files:
                raise click.BadParameter(
                    f"{path}: expected a results file of `warpwise climb --json`, got other JSON",
                    param_hint="--results",
                )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--results") from error
    if given and not found:
        raise click.BadParameter(f"no results file in {', '.join(map(str, given))}", param_hint="--results")
    return found


def _kept(ops: Sequence[Op]) -> list[pages.RecordedRun]:
    with open_store("; --results reports from files only") as store:
        return [source for op in ops for source in pages.from_store(store, op.name)]


def _climb(console: Console, op: Op, budget: float) -> pages.RecordedRun:
    """Climb at every size with the first dtype, and store the results."""
    try:
        with open_store() as store, console.status(f"{op.name}: climbing") as status:
            recorder = lab.store.Recorder(store, op)

            def progress(step: Step) -> None:
                text = f"{op.name}: {step.stage} {step.rung} {step.detail} ({step.done}/{step.total})"
                if console.is_terminal:
                    status.update(escape(text))
                elif step.result is not None:
                    _line(console, text)
                recorder(step)

            ladder = lab.climb(op, timed_dtypes=op.spec.dtypes[:1], progress=progress, budget_s=budget)
            recorder.finish(ladder)
    except Exception as error:
        raise failed(op.name, error) from error
    return pages.from_ladder(ladder)


def _ladder(one: pages.Collected) -> pages.LadderAtPoint:
    """The rungs to explain, at the point that the page shows first."""
    verified = {name for name in one.rungs if one.status(name) == "right" and name not in one.changed}
    return pages.LadderAtPoint(one.op, one.target, pages.shown_first(one), verified)


def _line(console: Console, text: str) -> None:
    """One line of progress, written at once into a pipe or file."""
    console.print(f"[dim]{escape(text)}[/]", soft_wrap=True)
    console.file.flush()
