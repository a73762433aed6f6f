"""``warpwise tune``: find the fastest rung and tile of an operation on this GPU, and store them in its table."""

from __future__ import annotations

import os
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from warpwise import lab
from warpwise.cache import cache_dir
from warpwise.cli.cases import ALL, cases_named, with_attributes
from warpwise.cli.climb import dtypes_named
from warpwise.cli.console import counted, wide_console
from warpwise.cli.targets import find_op, find_rung
from warpwise.lab.profile.script import as_main
from warpwise.lab.timing.timing import duration
from warpwise.lab.tune import Progress
from warpwise.lab.tune.online import BUDGET, BUDGET_S, SWITCH, TOTAL, TOTAL_S, Online
from warpwise.operation import Case, Op, Tables
from warpwise.tuned import TORCH, TunedPoint

if TYPE_CHECKING:
    from typing_extensions import Self


def tune(
    name: str,
    argv: Sequence[str],
    online: bool,
    where: str | None,
    sizes: Sequence[str],
    attributes: Sequence[str],
    dtypes: Sequence[str],
    layouts: Sequence[str],
    rungs: Sequence[str],
    budget: float | None,
    total: float | None,
    resume: bool,
    out: Path | None,
) -> int:
    """Run ``warpwise tune``, with the options of ``warpwise.cli.commands.tune``."""
    console = wide_console()
    if online:
        given = (where, sizes, attributes, dtypes, layouts, rungs, out)
        if any(given) or not resume:
            raise click.UsageError("--online takes only --budget and --total; put options of SCRIPT after it")
        return _run_online(console, Path(name), argv, budget, total)
    if argv or total is not None:
        if "--online" in argv:
            raise click.UsageError("--online: expected before SCRIPT, as in: warpwise tune --online SCRIPT ARGS")
        what = " ".join(argv) or "--total"
        raise click.UsageError(f"{what}: expected only with --online, as in: warpwise tune --online SCRIPT ARGS")
    op = find_op(name, advice=f"to run it and tune the calls that it makes: warpwise tune --online {name}")
    for rung in rungs:
        find_rung(op, rung)
    try:
        with _Shown(console) as shown:
            tuned = lab.tune(
                op,
                device=where,
                sizes=_sizes(op, sizes, attributes),
                dtypes=dtypes_named(op, dtypes),
                layouts=layouts or None,
                rungs=rungs or None,
                budget_s=budget or 2.0,
                fresh=not resume,
                path=out,
                progress=shown.update,
            )
    except KeyboardInterrupt:
        console.print(
            f"stopped after {counted(shown.measured, 'new point')}, stored already; the same command continues"
        )
        raise click.Abort from None
    except (ValueError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
    for note in dict.fromkeys(tuned.notes):  # one for each dtype and layout
        console.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)
    won = [point for point in tuned.table.points if point.winner != TORCH]
    total = len(tuned.table.points)
    if not total:
        console.print("nothing was measured, so no table was written")
        return 0
    console.print(f"{counted(tuned.measured, 'point')} measured; the table has {total}, {len(won)} of them ours")
    console.print(f"[dim]{'written to' if tuned.measured else 'unchanged:'} {tuned.path}[/]", soft_wrap=True)
    if tuned.table.device.name == "cpu":
        console.print(f"[yellow]{op.name} does not use this table: on a CPU PyTorch computes unless a rung is named[/]")
    return 0


def _run_online(console: Console, script: Path, argv: Sequence[str], budget: float | None, total: float | None) -> int:
    """Run ``script`` with online tuning in this process and in those that it starts; print what was measured."""
    if not script.is_file():
        raise click.BadParameter(f"no file {script}", param_hint="SCRIPT")
    settings = {SWITCH: "online", BUDGET: str(budget or BUDGET_S), TOTAL: str(total or TOTAL_S)}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    tuned = lab.tune_online(budget_s=budget or BUDGET_S, total_s=total or TOTAL_S)
    try:
        with as_main(script, argv[1:] if argv[:1] == ("--",) else argv):
            runpy.run_path(str(script), run_name="__main__")
    finally:
        tuned.stop()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        for name, point in tuned.points:
            sizes = ", ".join(f"{key}={size}" for key, size in point.sizes.items())
            console.print(_row(f"{name} {point.dtype} {point.kind} {sizes}", point), soft_wrap=True)
        console.print(_summary(tuned), soft_wrap=True)
        if tuned.spent_s >= tuned.total_s:
            console.print(f"[yellow]the total of {tuned.total_s:g} s is used up: later shapes were not measured[/]")
    return 0


def _summary(tuned: Online) -> str:
    """What online tuning measured in this process, and where the choices are; without a GPU, why there are none."""
    if not tuned.points and not torch.cuda.is_available():
        return "0 shapes measured: there is no GPU here, and calls on CPU tensors are never measured"
    won = sum(point.winner != TORCH for _, point in tuned.points)
    measured = f"{counted(len(tuned.points), 'shape')} measured, {won} of them ours, in {tuned.spent_s:.2g} s"
    folder = cache_dir() / "tuned"
    return f"{measured}; the choices are in {folder}" if folder.is_dir() else measured


def _sizes(op: Op, names: Sequence[str], attributes: Sequence[str]) -> list[Case] | None:
    tables = op.tables.sizes if isinstance(op.tables, Tables) else ()
    if names and ALL not in names:
        return cases_named(op, names, attributes, tables)
    return with_attributes(op, tables or op.spec.sizes, attributes) if attributes else None


class _Shown:
    """One line for each point, and a progress bar below."""

    def __init__(self, console: Console) -> None:
        self.measured = 0
        self._console = console
        columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bar = Bar(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._bar.stop()

    def update(self, progress: Progress) -> None:
        """Show a step of the tuning."""
        label = escape(f"{progress.label}: {progress.stage}" if progress.stage else progress.label)
        self._bar.update(self._task, completed=progress.done, total=progress.total, description=label)
        if progress.point is not None:
            self.measured += not progress.kept
            self._bar.console.print(_line(progress, progress.point), soft_wrap=True)


def _line(progress: Progress, point: TunedPoint) -> str:
    return _row(progress.label, point) + (" [dim]known[/]" if progress.kept else "")


def _row(label: str, point: TunedPoint) -> str:
    name = "PyTorch" if point.winner == TORCH else point.winner
    beside = ""
    if point.rival_seconds:
        rival = "PyTorch" if point.rival == TORCH else point.rival
        beside = f"{point.rival_seconds / point.seconds:.2f} × {escape(rival)} ({duration(point.rival_seconds)})"
    colour = "yellow" if point.winner == TORCH else "green"
    return f"{escape(label):32} [{colour}]{escape(name):44}[/] {duration(point.seconds):>10}  {beside}"
