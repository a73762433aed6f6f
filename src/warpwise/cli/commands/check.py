"""The options and the help of ``warpwise check``."""

from __future__ import annotations

from typing import Any

import click

from warpwise.cli.commands.options import (
    FORMS_WITH_REFERENCE,
    fidelity_option,
    kernel_options,
    seed_option,
    target_option,
    timeout_option,
)


@click.command(epilog=FORMS_WITH_REFERENCE)
@click.argument("what", metavar="FILE|OP:RUNG")
@kernel_options(required=False)
@click.option(
    "--reference",
    metavar="MODULE:FUNCTION",
    help="Function of the arguments, passed by name (in as in_), that returns the expected outputs.",
)
@target_option("whose limits apply")
@click.option(
    "--order",
    type=click.Choice(["forward", "reverse", "shuffle", "preempt"]),
    default="forward",
    show_default=True,
    help="The order in which threads run; preempt: random order, with preemption at atomics, volatile accesses, "
    "fences and barriers.",
)
@seed_option("random tensors, and of --order shuffle and preempt")
@click.option(
    "--schedules",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Repeat with --order preempt and the next N seeds until there is a finding, which names its seed.",
)
@click.option(
    "--nan",
    is_flag=True,
    help="Also find where the first NaN, infinity and denormal number arise, and show the operands.",
)
@fidelity_option
@click.option(
    "--sanitizer",
    "tools",
    multiple=True,
    type=click.Choice(["all", "memcheck", "racecheck", "initcheck", "synccheck"]),
    help="Run on a GPU under this compute-sanitizer tool instead. Repeatable.",
)
@timeout_option
def check(**given: Any) -> int:
    """Run one kernel of FILE, or every kernel of a rung, on the CPU with all checks, and print every finding.

    FILE is CUDA C++ (.cu), or Python with Triton kernels or kernels of cuda.load. A Triton kernel needs no --block;
    --arg also passes launch options such as num_warps. Exits with 1 if there is a finding.

    \b
    warpwise check softmax:k03
    warpwise check softplus.py:k01
    warpwise check add.cu --kernel add --grid 4 --block 256 \\
        --arg n=1000 --arg 'x=f32[1000]' --arg 'y=out:f32[1000]'
    warpwise check add.py --kernel add --grid 4 \\
        --arg n=1000 --arg 'x=f32[1000]' --arg 'y=out:f32[1000]' --arg BLOCK=256
    """
    from warpwise.cli.check import check as run_check

    return run_check(**given)
