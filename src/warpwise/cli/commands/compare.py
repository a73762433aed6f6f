"""The options and the help of ``warpwise compare``."""

from __future__ import annotations

import re
from typing import Any

import click

PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%?")


class Percent(click.ParamType):
    """``3%`` or ``3``: the number, 3.0."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = PERCENT.fullmatch(value.strip())
        if not match:
            self.fail(f"{value!r}: expected a percentage such as 3%", param, ctx)
        return float(match[1])


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--op", "ops", metavar="OP", multiple=True, help="Only this operation. Repeatable.")
@click.option("--device", "where", metavar="DEVICE", help="A device by name or part of it: h200, cpu.")
@click.option(
    "--fail-slower",
    "limit",
    type=Percent(),
    metavar="PERCENT",
    help="Exit with 1 if a rung is slower by more than this beyond noise.",
)
@click.option(
    "--noise",
    type=Percent(),
    default="0.5%",
    show_default=True,
    metavar="PERCENT",
    help="Difference between two runs of the same code.",
)
@click.option("--all", "everything", is_flag=True, help="Also list unchanged times.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(**given: Any) -> int:
    """Compare the times in A with those in B, and list the rungs that became faster or slower by more than the noise.

    A and B are each a run's id (r12), 'last', 'last~1' (the last run of each operation on each device, and the one
    before it), a git commit, a date (2026-11-20: the state at the end of that day), a results file of `climb --json`,
    or a folder of such files. A time changed if its two 95 % intervals are disjoint and the interval of their ratio
    excludes 1 by more than --noise.

    Exits with 1 if --fail-slower is given and the lower end of a rung's ratio exceeds it, or a rung that was correct
    is now wrong; and with 2 for a usage error, a store that cannot be used, or --fail-slower without a common time.

    \b
    warpwise compare last~1 last
    warpwise compare 4f0c2d1 last --fail-slower 3%
    """
    from warpwise.cli.compare import compare as run_compare

    return run_compare(**given)
