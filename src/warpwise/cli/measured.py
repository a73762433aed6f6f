"""``explain --ncu``: counters of the executed machine code beside Nsight Compute's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import torch
from rich.console import Console
from rich.table import Table

from warpwise.lab.errors import MeasurementError
from warpwise.lab.explain import Explanation
from warpwise.lab.profile.ncu import CapturedLaunch, Measured, NcuError, captured, measure
from warpwise.operation import Case, Op, Rung

CLOSE = 0.01  # relative difference that rounding and the scaling of a sample of blocks can cause


def launches_of(op: Op, rung: Rung, case: Case, dtype: torch.dtype, seed: int) -> list[CapturedLaunch]:
    """The launches of a rung on the GPU. Raises ``ClickException`` if there is no GPU."""
    require_gpu()
    args = op.spec.arguments(case, dtype, torch.device("cuda"), seed)
    with captured() as found:
        op.launch(rung, op.allocate(*args), *args)
    return found


def require_gpu() -> None:
    """Raise ``ClickException`` if there is no GPU to measure on."""
    if not torch.cuda.is_available():
        raise click.ClickException(
            "--ncu measures on a GPU with Nsight Compute (ncu), and PyTorch finds no CUDA device here; "
            "without --ncu the same counters are computed on the CPU"
        )


def compare(console: Console, found: Sequence[Explanation], launches: Sequence[CapturedLaunch]) -> None:
    """Measure ``launches`` and print each beside its explanation. Raises ``ClickException`` if ncu cannot measure."""
    try:
        measured = measure(launches)
    except (MeasurementError, NcuError) as error:
        raise click.ClickException(str(error)) from error
    for explanation, real in zip(found, measured, strict=True):
        console.print(side_by_side(explanation, real))


def side_by_side(explanation: Explanation, measured: Measured) -> Table:
    """The common metrics, with the difference in percent of the measured value."""
    table = Table(
        title=f"{explanation.kernel}: executed on the CPU and measured by ncu", title_justify="left", box=None
    )
    table.add_column("metric")
    for name in ("executed", "measured", "difference"):
        table.add_column(name, justify="right")
    for name, ours, theirs in rows(explanation.metrics, measured.metrics):
        style = "green" if abs(ours - theirs) <= CLOSE * abs(theirs) else "yellow"
        table.add_row(name, _number(ours), _number(theirs), f"[{style}]{_difference(ours, theirs)}[/]")
    return table


def rows(ours: Any, theirs: Any) -> list[tuple[str, float, float]]:
    """The name and both values of every common metric that is not 0 in both."""
    both = [(name, float(ours[name]), float(theirs[name])) for name in ours if name in theirs]
    return [row for row in both if row[1] or row[2]]


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"


def _difference(ours: float, theirs: float) -> str:
    if ours == theirs:
        return "equal"
    return f"{100 * (ours - theirs) / theirs:+.1f} %" if theirs else "only executed"
