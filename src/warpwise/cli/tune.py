"""``warpwise tune``: find the fastest rung and tile of an operation on this GPU, and store them in its table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from warpwise import lab
from warpwise.cli.cases import ALL, attr_option, cases_named, with_attributes
from warpwise.cli.climb import dtypes_named
from warpwise.cli.console import wide_console
from warpwise.cli.targets import find_op, find_rung
from warpwise.lab.timing.timing import duration
from warpwise.lab.tune import Progress
from warpwise.operation import Case, Op, Tables
from warpwise.tuned import TORCH, TunedPoint

if TYPE_CHECKING:
    from typing_extensions import Self


@click.command()
@click.argument("name", metavar="OP")
@click.option("--device", "where", help="cuda, cuda:1 or cpu.  [default: the GPU]")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME",
    help="A size by name, or as m=1000,n=77,k=512.  [default: the operation's tuned sizes]",
)
@attr_option
@click.option("--dtype", "dtypes", multiple=True, metavar="DTYPE", help="float32, bfloat16, ...  [default: all]")
@click.option(
    "--layout", "layouts", multiple=True, metavar="NAME", help="Layout of the operands: nn, nt, ...  [default: all]"
)
@click.option("--rung", "rungs", multiple=True, help="A rung by name or number (k20).  [default: all]")
@click.option(
    "--budget",
    default=2.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds to time one size, dtype and layout.",
)
@click.option("--resume/--fresh", default=True, show_default=True, help="Skip known points, or measure them again.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the table to this file instead of the cache."
)
def tune(
    name: str,
    where: str | None,
    sizes: Sequence[str],
    attributes: Sequence[str],
    dtypes: Sequence[str],
    layouts: Sequence[str],
    rungs: Sequence[str],
    budget: float,
    resume: bool,
    out: Path | None,
) -> int:
    """Find the fastest rung and tile of OP, or PyTorch, at each size, dtype and layout.

    Every candidate is verified at the size before it is timed, and all are timed in turn. The winners are written to a
    table in the cache, from which OP then chooses on this GPU. All sizes, dtypes and layouts take hours; the options
    select some of them. Each point is stored as soon as it is measured: after Ctrl-C the same command continues. On a
    CPU the table is not used, because PyTorch computes there.
    """
    console = wide_console()
    op = find_op(name)
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
                budget_s=budget,
                fresh=not resume,
                path=out,
                progress=shown.update,
            )
    except KeyboardInterrupt:
        console.print(f"stopped after {shown.measured} new points, which are stored; the same command continues")
        raise click.Abort from None
    except (ValueError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
    for note in tuned.notes:
        console.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)
    won = [point for point in tuned.table.points if point.winner != TORCH]
    console.print(f"{tuned.measured} points measured; the table has {len(tuned.table.points)}, {len(won)} of them ours")
    console.print(f"[dim]written to {tuned.path}[/]", soft_wrap=True)
    if tuned.table.device.name == "cpu":
        console.print(f"[yellow]{op.name} does not use this table: on a CPU PyTorch computes unless a rung is named[/]")
    return 0


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
    name = "PyTorch" if point.winner == TORCH else point.winner
    beside = ""
    if point.rival_seconds:
        rival = "PyTorch" if point.rival == TORCH else point.rival
        beside = f"{point.rival_seconds / point.seconds:.2f} × {escape(rival)} ({duration(point.rival_seconds)})"
    kept = " [dim]known[/]" if progress.kept else ""
    colour = "yellow" if point.winner == TORCH else "green"
    return f"{progress.label:32} [{colour}]{escape(name):44}[/] {duration(point.seconds):>10}  {beside}{kept}"
