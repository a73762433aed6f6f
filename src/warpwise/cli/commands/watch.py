"""The options and the help of ``warpwise watch``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpwise.cli.commands.options import (
    FORMS,
    device_option,
    dtypes_option,
    kernel_options,
    rungs_option,
)


@click.command(epilog=FORMS)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@rungs_option("all of the file")
@device_option
@dtypes_option("the first")
@click.option("--no-explain", "plain", is_flag=True, help="Omit the hint and the modelled time.")
@kernel_options(required=False)
@click.option("--once", is_flag=True, help="Run once, and exit with 1 if a rung is wrong.")
def watch(**given: Any) -> int:
    """Verify, explain and time the kernels of FILE now and at every save, until Ctrl-C.

    FILE is the source of a rung (k03_warp_shuffle.cu), or a Python file that defines an operation, as `warpwise new`
    writes it. Cases that failed at the last save run first. One seed is verified; climb verifies three.

    With --kernel, --grid and --arg, FILE is any CUDA or Python file, and the kernel is checked and explained.

    \b
    warpwise watch softplus.py
    warpwise watch add.cu --kernel add --grid 4 --block 256 \\
        --arg n=1000 --arg 'x=f32[1000]' --arg 'y=out:f32[1000]'
    """
    from warpwise.cli.watch import watch as run_watch

    return run_watch(**given)
