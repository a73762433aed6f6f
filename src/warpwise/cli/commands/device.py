"""The options and the help of ``warpwise device``."""

from __future__ import annotations

from typing import Any

import click


@click.command()
@click.option("--target", metavar="TARGET", help="sm_90, cuda:1 or cpu.  [default: the current GPU, or the CPU]")
@click.option("--measure", is_flag=True, help="Measure the bandwidth and matmul rates again, also on a CPU.")
def device(**given: Any) -> int:
    """Show a device's limits, its computed peaks, and its measured copy bandwidth and matmul rates.

    On a GPU the rates are measured once, which takes a few seconds, and stored in the cache.
    """
    from warpwise.cli.device import device as run_device

    return run_device(**given)
