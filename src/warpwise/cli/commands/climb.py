"""The options and the help of ``warpwise climb``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpwise.cli.commands.options import attr_option, device_option, dtypes_option, rungs_option


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="OP...")
@device_option
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME",
    help="A size by name, 'all', or as rows=1000,columns=77. Repeatable.  [default: the first]",
)
@attr_option
@dtypes_option("verify all, time the first")
@rungs_option("all")
@click.option(
    "--budget",
    metavar="SECONDS",
    default=20.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds for timing one size and dtype.",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path),
    help="Write the results to this file, or to a folder for several operations.",
)
@click.option("--no-store", is_flag=True, help="Do not write to the results store, which `warpwise history` shows.")
def climb(**given: Any) -> int:
    """Verify every rung of OP against float64 and, on a GPU, time the correct ones, PyTorch and the vendor's library.

    On a CPU the rungs run in the emulator with all checks, at the cases of OP and at the sizes and attributes given,
    and the table shows the last times recorded on a GPU. If OP has a gradient, it is compared with autograd of the
    float64 reference. OP may be 'all', or a Python file that defines an operation, as `warpwise new` writes it. Each
    verdict and time is stored at once. Exits with 1 if a rung or the gradient is wrong, or if a rung given by --rung
    could not be tested.

    \b
    warpwise climb softmax
    warpwise climb matmul --rung k08 --size m=64,n=64,k=8
    warpwise climb linear --attr activation=gelu --attr return_preactivation=true
    """
    from warpwise.cli.climb import climb as run_climb

    return run_climb(**given)
