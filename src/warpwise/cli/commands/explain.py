"""The options and the help of ``warpwise explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpwise.cli.commands.options import (
    FORMS,
    attr_option,
    fidelity_option,
    kernel_options,
    seed_option,
    target_option,
    timeout_option,
)


class Blocks(click.ParamType):
    """A number of blocks, or ``all``."""

    name = "N|all"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if value == "all" or (str(value).isdigit() and int(str(value)) > 0):
            return "all" if value == "all" else int(str(value))
        self.fail(f"{value!r}: expected a number of blocks, or all", param, ctx)


@click.command(epilog=FORMS)
@click.argument("what", metavar="FILE|OP:RUNG")
@kernel_options(required=False)
@click.option("--size", metavar="NAME", help="OP:RUNG: a size by name, or as rows=1000,columns=77.")
@attr_option
@click.option("--dtype", metavar="DTYPE", help="OP:RUNG: float32, bfloat16, ...  [default: the first]")
@target_option("to compile for and to predict")
@click.option("--line", type=click.IntRange(min=1), help="The line whose lanes are drawn.  [default: the worst]")
@click.option("--all-lines", is_flag=True, help="Show the whole source, and every line of included files.")
@click.option(
    "--blocks",
    type=Blocks(),
    help="About how many blocks to execute; at least one of the interior and of each edge and corner of the grid.  "
    "[default: as many as run in a few seconds]",
)
@click.option("--trusted", is_flag=True, help="Omit the checked run, which is slow for large launches.")
@fidelity_option
@click.option("--ncu", is_flag=True, help="Also measure the counters with Nsight Compute on the GPU.")
@click.option(
    "--html", "html_path", type=click.Path(path_type=Path, dir_okay=False), help="Write the page to this file."
)
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path, dir_okay=False), help="Write the counters to this file."
)
@seed_option("random tensors")
@timeout_option
def explain(**given: Any) -> int:
    """Explain why a kernel is slow: its counters, what limits it, the lines that cost most, and what to try.

    The kernel is first checked as by `warpwise check`. Then its machine code is executed on the CPU and counted under
    Nsight Compute's metric names. No GPU is needed. FILE is CUDA C++ (.cu), or Python with Triton kernels or kernels of
    cuda.load. Exits with 1 if the kernel is wrong.

    \b
    warpwise explain softmax:k03 --size rows=512,columns=1024
    warpwise explain add.cu --kernel add --grid 4 --block 256 \\
        --arg n=1000 --arg 'x=f32[1000]' --arg 'y=out:f32[1000]'
    """
    from warpwise.cli.explain import explain as run_explain

    return run_explain(**given)
