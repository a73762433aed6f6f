"""The options and the help of ``warpwise run``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpwise.cli.commands.options import target_option


class _Run(click.Command):
    """Words after ``--`` are the program's arguments, even if a word is the name of a source."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.params["arguments"] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


@click.command(cls=_Run, context_settings={"ignore_unknown_options": False})
@click.argument("words", nargs=-1, required=True, metavar="PROGRAM.cu [MORE.cu]... [-- ARGUMENTS...]")
@click.option("--check", "leaks", is_flag=True, help="Also report memory that is never freed.")
@click.option(
    "-I",
    "include",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of headers. Repeatable.",
)
@click.option("-D", "define", multiple=True, metavar="NAME[=VALUE]", help="Define a macro. Repeatable.")
@click.option("-X", "flags", multiple=True, metavar="FLAG", help="Pass a flag to the host compiler. Repeatable.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Where to run.  [default: a GPU if there is one]")
@target_option("whose limits apply on the CPU")
@click.option(
    "--checks",
    type=click.Choice(["all", "bounds", "none"]),
    default="all",
    show_default=True,
    help="Checks of kernels. bounds: without races and uninitialised memory; none: no access is checked.",
)
@click.option("--timeout", default=0.0, metavar="SECONDS", help="Time limit of one emulated launch.  [default: none]")
def run(**given: Any) -> int:
    """Build an unmodified CUDA program and run it, with its kernels on the CPU and all checks.

    The host code calls the CUDA runtime API. Findings in kernels and in host code are printed with file and line: an
    out-of-range copy, a use after cudaFree, a host access to device memory, a missing cudaDeviceSynchronize before the
    host reads managed memory. Exits with the program's status, with 1 if there is a finding, and with 2 if the program
    or a kernel that it launches cannot be compiled; a kernel that is never launched is not compiled. With a GPU, nvcc
    builds the program, which runs there without checks.

    \b
    warpwise run vector_add.cu
    warpwise run main.cu kernels.cu -I include -D N=1000 --check -- --size 64
    """
    from warpwise.cli.run import run as run_run

    return run_run(**given)
