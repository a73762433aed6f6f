"""The table of ``--fidelity``: the executed instructions as exact, approximate or unsupported."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from warpwise.cli.kernel_files import KernelLaunch
from warpwise.lab.explain import Explanation, explain_launch, explain_rung
from warpwise.lab.explain.options import BUDGET, Options
from warpwise.operation import Op, Rung

_STYLES = {"exact": "green", "approximate": "yellow", "unsupported": "red"}
_EXACT_NAMES, _LINES = 12, 3


def print_fidelity(console: Console, explanations: Iterable[Explanation]) -> None:
    """Print the instructions of each launch: exact ones by name, the others with their difference and lines."""
    for one in explanations:
        table = Table(title=f"{one.kernel}: machine code of {one.target}", title_justify="left", box=None)
        for column in ("grade", "instruction", "executed", "difference", "lines"):
            table.add_column(column, justify="right" if column == "executed" else "left", overflow="fold")
        exact = [each for each in one.fidelity if each.grade == "exact"]
        for each in one.fidelity:
            if each.grade == "exact":
                continue
            note = each.note or "no model: a run stops there"
            places = ", ".join(f"{Path(file).name}:{line}" for file, line in each.lines[:_LINES])
            more = ", ..." if len(each.lines) > _LINES else ""
            style = _STYLES[each.grade]
            table.add_row(f"[{style}]{each.grade}[/]", each.instruction, f"{each.executed:,}", note, places + more)
        if exact:
            names = ", ".join(each.instruction for each in exact[:_EXACT_NAMES])
            rest = f" and {len(exact) - _EXACT_NAMES} more" if len(exact) > _EXACT_NAMES else ""
            executed = f"{sum(each.executed for each in exact):,}"
            table.add_row(f"[{_STYLES['exact']}]exact[/]", f"{names}{rest}", executed, "", "")
        console.print(table)
        if one.unsupported:
            console.print(f"[red]stopped[/]: {one.unsupported}", markup=True)


def launch_fidelity(console: Console, launch: KernelLaunch, target: str, timeout: float) -> None:
    """Execute the machine code of a launch and print its instructions."""
    options = Options(target, None, BUDGET, "none", timeout)
    print_fidelity(console, [explain_launch(launch.launcher, launch.args, launch.meta, options)])


def rung_fidelity(console: Console, op: Op, rung: Rung, seed: int, **options: Any) -> None:
    """Execute the machine code of a rung's launches and print their instructions."""
    print_fidelity(console, explain_rung(op, rung, seed=seed, checks="none", **options))
