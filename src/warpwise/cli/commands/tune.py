"""The options and the help of ``warpwise tune``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpwise.cli.commands.options import attr_option, dtypes_option, rungs_option


class _Tune(click.Command):
    """The command ``tune``, which passes all arguments after ``--online SCRIPT`` to the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = "--online" not in args
        return super().parse_args(ctx, args)


@click.command(cls=_Tune)
@click.argument("name", metavar="OP | SCRIPT")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
@click.option("--online", is_flag=True, help="Run SCRIPT, and measure at the first call of each new shape.")
@click.option("--device", "where", metavar="DEVICE", help="cuda, cuda:1 or cpu.  [default: the GPU]")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME",
    help="A size by name, or as m=1000,n=77,k=512. Repeatable.  [default: the operation's tuned sizes]",
)
@attr_option
@dtypes_option("all", "float32, bfloat16, ...")
@click.option(
    "--layout",
    "layouts",
    multiple=True,
    metavar="NAME",
    help="Layout of the operands: nn, nt, ... Repeatable.  [default: all]",
)
@rungs_option("all", "k20")
@click.option(
    "--budget",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds to time one size, dtype and layout.  [default: 2; with --online 0.05]",
)
@click.option(
    "--total",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds for all measurements with --online.  [default: 5]",
)
@click.option(
    "--resume/--fresh", default=True, show_default=True, help="Skip points that the table has, or measure them again."
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the table to this file instead of the cache."
)
def tune(**given: Any) -> int:
    """Find the fastest rung and tile of OP, or PyTorch, at each size, dtype and layout.

    Every candidate is verified at the size before it is timed, and the timing alternates between the candidates. The
    fastest are written to a table in the cache, from which OP then chooses on this GPU. All sizes, dtypes and layouts
    take hours; the options select some of them. Each point is stored as soon as it is measured: after Ctrl-C the same
    command continues. On a CPU the table is not used, because PyTorch computes there.

    With --online, SCRIPT runs as python SCRIPT ARGS would. At the first call of an operation with a dtype, layout and
    sizes that the table lacks, the likely best candidates and PyTorch are verified and timed on the call's own
    arguments. The winner is written to the table and computes that call and later ones. Options come before SCRIPT.
    WARPWISE_TUNE=online does the same in any program, with WARPWISE_TUNE_BUDGET and WARPWISE_TUNE_TOTAL in seconds.

    \b
    warpwise tune matmul --size m=512,n=4096,k=4096 --dtype bfloat16
    warpwise tune --online --total 20 train.py --epochs 1
    """
    from warpwise.cli.tune import tune as run_tune

    return run_tune(**given)
