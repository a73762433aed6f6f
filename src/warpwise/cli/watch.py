"""``warpwise watch``: verify, explain and time the kernels of a file at every save."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import warpwise
from warpwise import operation
from warpwise.cli.console import wide_console
from warpwise.cli.kept import near
from warpwise.cli.kernel_files import KernelOptions
from warpwise.cli.kernel_options import kernel_options
from warpwise.cli.targets import known_ops, load_file
from warpwise.cli.values import FORMS
from warpwise.cli.watch_kernel import watch_kernel
from warpwise.lab.timing.timing import duration
from warpwise.lab.watch import Board, Pairs, RungState, Wanted, Watch

OPS = Path(warpwise.__file__).parent / "ops"
STYLES = {"right": "green", "wrong": "bold red", "untested": "yellow"}
MARKS = {"right": "✓ right", "wrong": "✗ wrong", "untested": "– untested"}


@click.command(epilog=FORMS)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rung", "rungs", multiple=True, help="A rung by name or number (k02).  [default: all of the file]")
@click.option("--device", "where", help="cuda, cuda:1 or cpu.  [default: a GPU if there is one]")
@click.option(
    "--dtype", "dtypes", multiple=True, metavar="DTYPE", help="float32, bfloat16, ... or 'all'.  [default: the first]"
)
@click.option("--no-explain", "plain", is_flag=True, help="Omit the hint and the modelled time.")
@kernel_options(required=False)
@click.option("--once", is_flag=True, help="Run once, and exit with 1 if a rung is wrong.")
def watch(
    file: Path,
    rungs: Sequence[str],
    where: str | None,
    dtypes: Sequence[str],
    plain: bool,
    expression: str | None,
    grid: tuple[int, ...] | None,
    block: tuple[int, ...] | None,
    shared: int,
    texts: Sequence[str],
    include: Sequence[Path],
    define: Sequence[str],
    constants: Sequence[str],
    once: bool,
) -> int:
    """Verify, explain and time the kernels of FILE now and at every save, until Ctrl-C.

    FILE is the source of a rung (k03_warp_shuffle.cu), or a Python file that defines an operation, as `warpwise new`
    writes it. Cases that failed at the last save run first. One seed is verified; climb verifies three.

    With --kernel, --grid and --arg, FILE is any CUDA or Python file, and the kernel is checked and explained.

    \b
    warpwise watch softplus.py
    warpwise watch add.cu --kernel add --grid 4 --block 256 \\
        --arg n=1000 --arg 'x=f32[1000]' --arg 'y=out:f32[1000]'
    """
    console = wide_console()
    path = file.resolve()
    if expression is not None:
        options = KernelOptions(expression, grid, block, shared, texts, include, define, constants)
        try:
            return 0 if watch_kernel(console, path, options, not plain, once) else 1
        except KeyboardInterrupt:
            console.print("[dim]stopped[/]")
            return 0
    if OPS not in path.parents:
        known_ops()  # imported once: the process forked at each save inherits them
    wanted = Wanted(lambda: find(path, rungs), where, dtypes, not plain)
    watched = Watch(path, wanted)
    try:
        _loop(console, watched, once)
    except KeyboardInterrupt:
        console.print("[dim]stopped[/]")
        return 0
    finally:
        watched.close()
    return 0 if watched.board.right else 1


def _loop(console: Console, watched: Watch, once: bool) -> None:
    """Draw the board when it changes; into a pipe, once for each save."""
    if not console.is_terminal:
        shown = -1
        while True:
            watched.update()
            if not watched.board.working and watched.board.saves != shown:
                shown = watched.board.saves
                console.print(page(watched.board))
                sys.stdout.flush()
                if once:
                    return
    with Live(page(watched.board), console=console, auto_refresh=False) as live:
        while not once or watched.board.working:
            if watched.update():
                live.update(page(watched.board), refresh=True)


def find(path: Path, names: Sequence[str]) -> Pairs:
    """The rungs with the source ``path``, or those of the operations it defines; only those in ``names`` if given.

    Raises ``click.BadParameter`` if there are none, or the file does not load.
    """
    known_ops()
    pairs = [(op, rung) for op in operation.all_ops() for rung in op.rungs if rung.source.resolve() == path]
    if not pairs and OPS in path.parents:
        below = path.parent
        pairs = [
            (op, rung) for op in operation.all_ops() for rung in op.rungs if below in rung.source.resolve().parents
        ]
    if not pairs and path.suffix == ".py":
        pairs = [(op, rung) for op in load_file(path, "FILE") for rung in op.rungs]
    if not pairs:
        raise click.BadParameter(
            f"{path.name}: expected the source of a rung, or a Python file with an operation; "
            "any other file needs --kernel, --grid and --arg",
            param_hint="FILE",
        )
    chosen: Pairs = []
    for name in names:
        meant = [pair for pair in pairs if name in (pair[1].name, *pair[1].name.partition("_")[::2])]
        if not meant:
            raise click.BadParameter(
                f"{path.name}: no rung {name!r}{near(name, [rung.name for _, rung in pairs])}", param_hint="--rung"
            )
        chosen += [pair for pair in meant if pair not in chosen]
    return chosen or pairs


def page(board: Board) -> Group:
    """The page: the device, one row for each rung, then the first failure or the hint of each."""
    when = f", verdict {board.verdict_after:.1f} s after the save" if board.verdict_after is not None else ""
    dtypes = f", {board.dtypes}" if board.dtypes else ""
    head = f"{board.file.name}  [dim]{escape(board.place)}{dtypes}, save {board.saves}{when}[/]"
    parts: list[Text | Table] = [Text.from_markup(head)]
    if board.error:
        parts.append(Text(board.error, style="red"))
    if board.rows:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("rung", "verdict"):
            table.add_column(heading, no_wrap=True)
        for heading in ("time", "vs last", "vs best"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("", style="dim", overflow="ellipsis", no_wrap=True)
        for row in board.rows:
            mark = Text(MARKS.get(row.status, ""), style=STYLES.get(row.status, ""))
            table.add_row(row.rung, mark, *_times(row), escape(row.stage))
        parts.append(table)
    for row in board.rows:
        if row.message:
            parts.append(Text(f"{row.rung}: {row.message}", style="red" if row.status == "wrong" else "yellow"))
        elif row.hint:
            parts.append(Text(f"{row.rung}: {row.hint}"))
    return Group(*parts)


def _times(row: RungState) -> tuple[str, str, str]:
    if row.seconds is None:
        return "", "", ""
    time = f"{duration(row.seconds)}{' (modelled)' if row.modelled else ''}"
    return time, _against(row.seconds, row.last), _against(row.seconds, row.best)


def _against(now: float, before: float | None) -> str:
    """The change of a time in percent: ``-12.3 %`` if it is shorter."""
    if not before:
        return ""
    change = 100 * (now / before - 1)
    return "the same" if abs(change) < 0.05 else f"{change:+.1f} %"
