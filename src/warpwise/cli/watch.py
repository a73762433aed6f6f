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
from warpwise.cli.targets import known_ops, load_file
from warpwise.cli.watch_kernel import watch_kernel
from warpwise.lab.timing.timing import duration
from warpwise.lab.watch import Board, Pairs, RungState, Wanted, Watch

OPS = Path(warpwise.__file__).parent / "ops"
STYLES = {"right": "green", "wrong": "bold red", "untested": "yellow"}
MARKS = {"right": "✓ right", "wrong": "✗ wrong", "untested": "– untested"}


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
    """Run ``warpwise watch``, with the options of ``warpwise.cli.commands.watch``."""
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
        if path.suffix != ".py":
            find(path, rungs)  # no edit of a kernel's source makes it the source of a rung
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
    shown = [board.place, board.dtypes, f"save {board.saves}"]
    if board.verdict_after is not None:
        shown.append(f"verdict {board.verdict_after:.1f} s after the save")
    head = f"{board.file.name}  [dim]{escape(', '.join(part for part in shown if part))}[/]"
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
