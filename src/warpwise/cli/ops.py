"""``warpwise ops``: list the operations, or the rungs, sizes and layouts of one."""

from __future__ import annotations

from collections.abc import Iterable

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warpwise import operation
from warpwise.cli.console import wide_console
from warpwise.cli.targets import find_op, known_ops
from warpwise.lab.verdict import dtype_name
from warpwise.operation import Op, Tables

LANGUAGES = {"cuda": "CUDA C++", "triton": "Triton", "c": "C", "python": "Python"}


@click.command("ops")
@click.argument("name", metavar="[OP]", required=False)
def ops(name: str | None) -> int:
    """List the operations, or the rungs, sizes, dtypes and layouts of OP.

    `climb`, `check`, `explain`, `profile` and `tune` accept these names. OP may be a Python file that defines an
    operation.
    """
    console = wide_console()
    if name is None:
        console.print(_operations(operation.get(each) for each in known_ops()))
        console.print("[dim]`warpwise ops OP` lists its rungs; `warpwise climb OP` verifies and times them[/]")
    else:
        _print_ladder(console, find_op(name))
    return 0


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def _operations(found: Iterable[Op]) -> Table:
    table = _table("operation", "description", "rungs", "tunable")
    for op in found:
        tuned = "yes" if isinstance(op.tables, Tables) else ""
        table.add_row(op.name, escape(op.spec.summary), str(len(op.rungs)), tuned)
    return table


def _print_ladder(console: Console, op: Op) -> None:
    console.print(f"[bold]{op.name}[/]  {escape(op.spec.summary)}")
    table = _table("rung", "idea", "language", "dtypes", "runs on")
    for rung in op.rungs:
        dtypes = "all" if rung.dtypes is None else ", ".join(map(dtype_name, rung.dtypes))
        places = " and ".join("GPU" if place == "cuda" else place.upper() for place in rung.devices)
        idea = f"{rung.idea}{' (by name alone)' if rung.by_name else ''}"
        table.add_row(rung.name, escape(idea), LANGUAGES[rung.language], dtypes, places)
    console.print(table)
    console.print(f"sizes    {', '.join(escape(str(case)) for case in op.spec.sizes)}", soft_wrap=True)
    console.print(f"dtypes   {', '.join(map(dtype_name, op.spec.dtypes))}")
    if isinstance(op.tables, Tables):
        sizes = op.tables.sizes or op.spec.sizes
        layouts = ", ".join(filter(None, op.tables.arrangements)) or "one"
        console.print(f"tuned    at {len(sizes)} sizes by `warpwise tune {op.name}`; layouts {layouts}", soft_wrap=True)
