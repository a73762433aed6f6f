"""The options and the help of ``warpwise history``."""

from __future__ import annotations

from typing import Any

import click


@click.command()
@click.argument("names", nargs=-1, metavar="[OP]...")
@click.option("--rung", metavar="RUNG", help="A rung by name or number (k02), or an opponent by name.")
@click.option("--dtype", metavar="DTYPE", help="float32, bfloat16, ...")
@click.option("--case", metavar="CASE", help="A size by name.")
@click.option("--device", "where", metavar="DEVICE", help="A device by name or part of it: h200, cpu.")
@click.option("--since", metavar="WHEN", help="A date (2026-11-20, 2026-11-20T15:30, UTC) or an age: 90m, 12h, 7d, 2w.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    help="Number of newest measurements; 0 for all.",
)
@click.option("--opponents", is_flag=True, help="Also list opponents.")
@click.option("--json", "as_json", is_flag=True, help="Print all stored data as JSON.")
@click.option(
    "--import",
    "importing",
    is_flag=True,
    help="Import results files (`climb --json`) into the store: history --import FILE...",
)
def history(**given: Any) -> int:
    """List the stored measurements, newest first: each time with its interval and its change from the previous run.

    `warpwise climb` writes to the store: $WARPWISE_STORE, or warpwise/runs.sqlite3 in the user's data folder.
    A change is coloured if it exceeds the noise of both runs. Exits with 2 if the store cannot be used.

    \b
    warpwise history softmax --rung k05 --since 7d
    warpwise history --import benchmarks/results/h200/*.json
    """
    from warpwise.cli.history import history as run_history

    return run_history(**given)
