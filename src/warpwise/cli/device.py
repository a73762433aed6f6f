"""``warpwise device``: a device's limits, computed peaks and measured ceilings."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from warpwise.cli.console import wide_console
from warpwise.device.description import describe
from warpwise.device.measure import Ceilings, ceilings, measure_ceilings


def device(target: str | None, measure: bool) -> int:
    """Run ``warpwise device``, with the options of ``warpwise.cli.commands.device``."""
    console = wide_console()
    try:
        what = describe(target)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--target") from error
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for label, text in what.rows():
        table.add_row(label, text)
    console.print(table)
    if what.place == "target":
        console.print("[dim]limits only: a target is not a device to measure on[/]")
        return 0
    found = None if measure else ceilings(target)
    if found is None and (measure or what.place == "gpu"):
        with console.status(f"measuring {what.name}"):
            found = measure_ceilings(target)
    _show(console, found)
    return 0


def _show(console: Console, found: Ceilings | None) -> None:
    if found is None:
        console.print("[dim]not measured yet; --measure does it[/]")
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("copy, measured", f"{found.copy / 1e9:,.0f} GB/s read and written")
    for kind, rate in found.matmul.items():
        table.add_row(f"{kind} matmul, measured", f"{rate / 1e12:,.2f} TFLOP/s")
    console.print(table)
    console.print(f"[dim]{found.provenance}[/]")
