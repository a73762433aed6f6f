"""The options of ``check`` and ``explain`` that select a kernel of a CUDA file and its launch."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from warpwise import cuda
from warpwise.cli.values import Dim3, Value, parse
from warpwise.device import Profile

Command = Callable[..., Any]


def kernel_options(required: bool) -> Callable[[Command], Command]:
    """``--kernel``, ``--grid``, ``--block``, ``--shared``, ``--arg``, ``--include``, ``--define``, ``--constant``."""
    options = (
        click.option(
            "--kernel", "expression", required=required, help="The kernel, with its template arguments: 'sgemm<32>'."
        ),
        click.option("--grid", type=Dim3(), required=required, help="Number of blocks."),
        click.option("--block", type=Dim3(), required=required, help="Threads per block."),
        click.option(
            "--shared", type=click.IntRange(min=0), default=0, show_default=True, help="Dynamic shared memory, bytes."
        ),
        click.option(
            "--arg",
            "texts",
            multiple=True,
            metavar="NAME=VALUE",
            help="n=1000, x=f32[1000], y=out:f32[1000], w=@w.npy; one for each parameter. See below.",
        ),
        click.option(
            "--include",
            multiple=True,
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="Folder for #include.",
        ),
        click.option("--define", multiple=True, metavar="NAME[=VALUE]", help="A macro."),
        click.option(
            "--constant",
            "constants",
            multiple=True,
            metavar="NAME=VALUE",
            help="A __constant__ variable, by a value as for --arg; a number is an int or a float.",
        ),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of random tensors, and of --order shuffle and preempt."
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds for a launch.",
)


def require_target(target: str) -> None:
    """Raise ``click.BadParameter`` if the target is unknown."""
    try:
        Profile.of(target)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--target") from error


def load_kernel(
    file: Path, expression: str, include: Sequence[Path], define: Sequence[str], target: str, constants: Sequence[str]
) -> cuda.Kernel:
    """The kernel that the options select. Raises ``cuda.CompileError`` if the source lacks one of the constants."""
    defines = {name: value if equals else 1 for name, equals, value in (text.partition("=") for text in define)}
    module = cuda.load(file, include=include, define=defines, target=target)
    for one in given_values(constants, 0):
        value = np.float32(one.value) if isinstance(one.value, float) else one.value
        module.set_constant(one.name, np.int32(value) if isinstance(value, int) else value)
    return module[expression]


def given_values(texts: Sequence[str], seed: int) -> list[Value]:
    """The values of ``--arg``; random tensors use ``seed`` and the following seeds."""
    return [parse(text, seed + position) for position, text in enumerate(texts)]


def arguments(values: Sequence[Value]) -> list[Any]:
    """The arguments of the launch, with outputs marked by ``cuda.out``."""
    return [cuda.out(value.value) if value.output else value.value for value in values]


def in_order(kernel: cuda.Kernel, given: Sequence[Value]) -> list[Value]:
    """``given`` in the order of the kernel's parameters. Raises ``click.UsageError`` if one is missing, unknown or
    repeated.

    A kernel that a macro expands to has no declaration to read names from: its arguments keep their order.
    """
    if kernel.declaration is None:
        return list(given)
    parameters = kernel.declaration.parameters
    names = [name for _, name in parameters]
    by_name = {value.name: value for value in given}
    if len(by_name) != len(given):
        twice = next(
            value.name
            for position, value in enumerate(given)
            if value in given[:position] or by_name[value.name] is not value
        )
        raise click.UsageError(f"--arg {twice}=… is given twice")
    declared = ", ".join(f"{kind} {name}" for kind, name in parameters)
    for name in by_name:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"no parameter {name!r}{hint}; the kernel declares ({declared})")
    if missing := [name for name in names if name not in by_name]:
        raise click.UsageError(f"no --arg for {', '.join(missing)}; the kernel declares ({declared})")
    return [by_name[name] for name in names]
