"""The options and the help of ``warpwise report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("names", nargs=-1, metavar="[OP...]")
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the pages.",
)
@click.option(
    "--results",
    "given",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="DIR|FILE",
    help="Use only these results (of `warpwise climb --json`). Repeatable.  [default: recorded results and the store]",
)
@click.option(
    "--device",
    "device",
    metavar="NAME",
    help="Show times of the device whose name contains NAME.  [default: the device timed last]",
)
@click.option(
    "--climb",
    "fresh",
    is_flag=True,
    help="Climb first: verify and, on a GPU, time every size. Results are stored.",
)
@click.option(
    "--budget",
    metavar="SECONDS",
    default=10.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="With --climb: seconds for timing one size.",
)
@click.option(
    "--explain/--no-explain",
    default=True,
    show_default=True,
    help="Explain each rung, which takes seconds per rung; explanations are cached.",
)
def report(**given: Any) -> int:
    """Write a page for each OP, and an index, into DIR: its ladder, roofline, sizes, sources, differences and hints.

    OP may be 'all', the default: every operation with recorded results; or a Python file that defines an operation. A
    page opens in a browser without a network or other files.

    \b
    warpwise report softmax -o report
    warpwise report mine.py --climb -o report
    """
    from warpwise.cli.report import report as run_report

    return run_report(**given)
