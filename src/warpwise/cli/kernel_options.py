"""The kernel and the arguments that the options of ``check``, ``explain`` and ``watch`` select."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from warpwise import cuda
from warpwise.cli.values import Value, parse
from warpwise.device import Profile
from warpwise.lab.timing.environment import resolve


def require_target(target: str) -> None:
    """Raise ``click.BadParameter`` if the target is unknown."""
    try:
        Profile.of(target)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--target") from error


def require_device(where: str | None) -> torch.device:
    """The device, else the GPU if there is one, else the CPU. Raises ``click.BadParameter`` if it is not there."""
    try:
        return resolve(where)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--device") from error


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
            hint = f"; did you mean {near[0]!r}? The" if near else "; the"
            raise click.UsageError(f"no parameter {name!r}{hint} kernel declares ({declared})")
    if missing := [name for name in names if name not in by_name]:
        raise click.UsageError(f"no --arg for {', '.join(missing)}; the kernel declares ({declared})")
    return [by_name[name] for name in names]
