"""The options and the help of ``warpwise inductor``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpwise.cli.commands.options import device_option


@click.command()
@click.argument("expression")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    required=True,
    metavar="NAME=VALUE",
    help="A tensor or a number that the expression uses: x=f32[4096,4096], n=3. Repeatable.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write.  [default: stdout]"
)
@click.option(
    "--backend", type=click.Choice(["triton", "cpp"]), default="triton", show_default=True, help="cpp: for the CPU."
)
@device_option
@click.option("--raw", is_flag=True, help="Write Inductor's code unchanged. Always so for cpp.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def inductor(**given: Any) -> int:
    """Write the code that torch.compile generates for EXPRESSION as a Python file that runs and checks itself.

    EXPRESSION is Python that may use torch and the arguments. Without a GPU the Triton code is generated for the CPU,
    which is close to the code for a GPU, and the file runs emulated.

    \b
    warpwise inductor 'torch.softmax(x, -1)' --arg 'x=f32[4096,4096]' -o k00_inductor.py
    """
    from warpwise.cli.inductor import inductor as run_inductor

    return run_inductor(**given)
