"""``warpwise ops``: the operations, or the schema, rungs, sizes and attributes of one of them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warpwise import operation
from warpwise.arguments.schema import REQUIRED
from warpwise.cli.cases import attributes_of
from warpwise.cli.console import wide_console
from warpwise.cli.targets import find_op, known_ops
from warpwise.lab.verify.verdict import dtype_name
from warpwise.operation import Op, Tables

LANGUAGES = {"cuda": "CUDA C++", "triton": "Triton", "c": "C", "python": "Python"}


def ops(name: str | None) -> int:
    """Run ``warpwise ops``, with the options of ``warpwise.cli.commands.ops``."""
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
    console.print(f"schema      {escape(' '.join(op.spec.schema.split()))}", soft_wrap=True)
    console.print(f"outputs     {escape(', '.join(_output(op, name) for name in op.spec.results))}", soft_wrap=True)
    console.print(f"gradient    {escape(_gradient(op))}", soft_wrap=True)
    table = _table("rung", "idea", "language", "dtypes", "runs on")
    for rung in op.rungs:
        dtypes = "all" if rung.dtypes is None else ", ".join(map(dtype_name, rung.dtypes))
        places = " and ".join("GPU" if place == "cuda" else place.upper() for place in rung.devices)
        idea = f"{rung.idea}{' (by name only)' if rung.by_name else ''}"
        table.add_row(rung.name, escape(idea), LANGUAGES[rung.language], dtypes, places)
    console.print(table)
    for place, case in enumerate(op.spec.sizes):
        console.print(f"{'' if place else 'sizes':12}{escape(str(case))}", soft_wrap=True)
    for name, values in attributes_of(op).items():
        shown = f"{name}: {', '.join(map(repr, values)) or _default(op, name)}"
        console.print(f"attribute   {escape(shown)}", soft_wrap=True)
    console.print(f"dtypes      {', '.join(map(dtype_name, op.spec.dtypes))}")
    if isinstance(op.tables, Tables):
        sizes = op.tables.sizes or op.spec.sizes
        layouts = ", ".join(filter(None, op.tables.arrangements)) or "one"
        console.print(
            f"tuned       at {len(sizes)} sizes by `warpwise tune {op.name}`; layouts {layouts}", soft_wrap=True
        )


def _output(op: Op, name: str) -> str:
    """The name of an output with its properties: ``mean (saved)``, ``params (mutated)``."""
    output, marks = op.spec.outputs.get(name), []
    if name in op.spec.parsed.mutated:
        marks.append("mutated")
    if output is not None and output.saved:
        marks.append("saved")
    if output is not None and output.present is not None:
        marks.append("optional")
    if output is not None and isinstance(output.dtype, torch.dtype):
        marks.append(dtype_name(output.dtype))
    return f"{name} ({', '.join(marks)})" if marks else name


def _gradient(op: Op) -> str:
    gradient = op.spec.gradient
    if gradient is None:
        return "none"
    return f"by {gradient.op.name}" if gradient.op is not None else "by differentiable operations"


def _default(op: Op, name: str) -> str:
    """The default of the argument ``name``, for which no case has a value."""
    argument = op.spec.parsed.arguments[op.spec.parsed.index(name)]
    return "required" if argument.default is REQUIRED else f"{argument.default!r}"
