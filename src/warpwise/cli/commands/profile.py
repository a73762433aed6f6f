"""The options and the help of ``warpwise profile``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpwise.cli.commands.options import attr_option, device_option

COLUMNS = ("name", "calls", "self_cpu", "cpu", "self_cuda", "cuda", "memory", "cuda_memory")
TOOLS = ("nsys", "ncu")


@click.command()
@click.argument("target", required=False)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--schedule",
    "schedule_text",
    metavar="W,U,A,R",
    help="Wait, warm-up, active steps and repeats. A script's step ends with optimizer.step().  [default: 1,1,2,1]",
)
@click.option("--steps", type=click.IntRange(min=1), help="Number of calls.  [default: those of the schedule]")
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="Write a Chrome trace: FILE.json, or FILE.pt.trace.json for TensorBoard.",
)
@click.option(
    "--sort",
    type=click.Choice(COLUMNS),
    help="Column to sort by.  [default: self time on the GPU, or on the CPU]",
)
@click.option("--rows", type=click.IntRange(min=1), default=20, show_default=True, help="Number of rows.")
@click.option(
    "--size",
    metavar="NAME",
    help="A rung's size by name, or as rows=1000,columns=77.  [default: the first timing size; on a CPU a test case]",
)
@attr_option
@click.option("--dtype", metavar="DTYPE", help="A rung's dtype: float32, bfloat16, ...  [default: the first]")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument of module:function: n=3, x=f32[64,64]. Repeatable.",
)
@device_option
@click.option("--stacks", is_flag=True, help="Also record Python stacks.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--with",
    "tool",
    type=click.Choice(TOOLS),
    help="Run under Nsight Systems or Nsight Compute instead.",
)
@click.option("--report", type=click.Path(path_type=Path), help="The report file of --with.")
@click.option(
    "--naive-clock", "clock", is_flag=True, help="Time one call with each of the usual methods, and show their errors."
)
@click.option("--captured", "inside", is_flag=True, hidden=True)
def profile(**given: Any) -> int:
    """Run TARGET under PyTorch's profiler and show where the time is spent.

    TARGET is a rung (softmax:k03; softmax is its default rung, softmax:all every rung), a function
    (package.module:function) or a script (train.py), whose own arguments follow --. own.py:k02 is a rung of a file.
    Without a GPU the CPU is profiled.

    \b
    warpwise profile softmax:k03 --trace softmax.pt.trace.json
    warpwise profile train.py --schedule 1,1,3,1 -- --epochs 1
    warpwise profile softmax --with ncu
    warpwise profile --naive-clock softmax
    """
    from warpwise.cli.profile import profile as run_profile

    return run_profile(**given)
