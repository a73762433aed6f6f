"""``warpwise check``: run one kernel of a CUDA file emulated on the CPU and print everything found wrong with it."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console
from rich.markup import escape

from warpwise import cuda
from warpwise.cli.values import Dim3, Value, parse
from warpwise.device import Profile


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--kernel", "expression", required=True, help="The kernel, with template arguments if it has any: 'sgemm<32>'."
)
@click.option("--grid", type=Dim3(), required=True, help="Blocks.")
@click.option("--block", type=Dim3(), required=True, help="Threads a block.")
@click.option(
    "--shared", type=click.IntRange(min=0), default=0, show_default=True, help="Dynamic shared memory, bytes."
)
@click.option(
    "--arg",
    "texts",
    multiple=True,
    metavar="NAME=VALUE",
    help="n=1000, x=f32[1000], y=out:f32[1000], w=@w.npy; once for each parameter.",
)
@click.option(
    "--reference",
    metavar="MODULE:FUNCTION",
    help="Called with the arguments by name; what it returns is what the outputs must hold.",
)
@click.option(
    "--include",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder for #include.",
)
@click.option("--define", multiple=True, metavar="NAME[=VALUE]", help="A macro.")
@click.option("--target", default="sm_90", show_default=True, help="The device whose limits hold.")
@click.option(
    "--order",
    type=click.Choice(["forward", "reverse", "shuffle"]),
    default="forward",
    show_default=True,
    help="In which order threads run.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="For random tensors and the order.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, help="Seconds."
)
def check(
    file: Path, expression: str, grid: tuple[int, ...], block: tuple[int, ...], shared: int, texts: Sequence[str],
    reference: str | None, include: Sequence[Path], define: Sequence[str], target: str, order: str, seed: int, timeout: float,
) -> int:  # fmt: skip
    """Run one kernel of FILE on the CPU, checked, and print every finding. Exits with 1 if there is any.

    \b
    warpwise check add.cu --kernel add --grid 4 --block 256 \\
        --arg n=1000 --arg 'x=f32[1000]' --arg 'y=out:f32[1000]'
    """
    console = Console(highlight=False, soft_wrap=True)
    try:
        Profile.of(target)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--target") from error
    given = [parse(text, seed + position) for position, text in enumerate(texts)]
    defines = {name: value if equals else 1 for name, equals, value in (text.partition("=") for text in define)}
    expected = _load_reference(reference) if reference else None
    try:
        kernel = cuda.load(file, include=include, define=defines, target=target)[expression]
        values = _in_order(kernel, given)
        arguments = [cuda.out(value.value) if value.output else value.value for value in values]
        wanted = _expected(expected, values) if expected else None
        with console.status(f"{expression}: compiling and running on the CPU, checked"):
            findings = kernel[grid, block, shared].check(*arguments, timeout=timeout, order=order, seed=seed)
    except cuda.KernelError as error:
        console.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}")
        return 1
    for finding in findings:
        console.print(
            f"[bold red]{finding.kind.__name__}[/]{escape(str(finding).removeprefix(finding.kind.__name__))}\n"
        )
    wrong = [] if findings or wanted is None else _differences(values, wanted)
    for line in wrong:
        console.print(f"[bold red]wrong[/]: {escape(line)}")
    if findings or wrong:
        console.print(
            f"[red]{len(findings) or len(wrong)} finding{'s' if len(findings or wrong) > 1 else ''}[/] in {escape(expression)}"
        )
        return 1
    note = (
        "equals the reference"
        if wanted is not None
        else "no reference given: that it runs clean does not say that it is right"
    )
    console.print(f"[green]no finding[/] in {escape(expression)}, {note}")
    return 0


def _expected(reference: Callable[..., Any], values: Sequence[Value]) -> Any:
    """What the reference makes of copies of the arguments, which it gets by name."""
    try:
        return reference(**{value.name: _copy(value.value) for value in values})
    except Exception as error:
        names = ", ".join(value.name for value in values)
        raise click.UsageError(
            f"the reference, called with {names} by name, raised {type(error).__name__}: {error}"
        ) from error


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _in_order(kernel: cuda.Kernel, given: Sequence[Value]) -> list[Value]:
    """``given`` in the order of the kernel's parameters; says which are missing, unknown or given twice.

    A kernel that a macro makes has no declaration to read names from: its arguments keep the order they were given in.
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
            raise click.UsageError(
                f"no parameter {name!r}{f', did you mean {near[0]!r}?' if near else ''}; the kernel declares ({declared})"
            )
    if missing := [name for name in names if name not in by_name]:
        raise click.UsageError(f"no --arg for {', '.join(missing)}; the kernel declares ({declared})")
    return [by_name[name] for name in names]


def _load_reference(path: str) -> Callable[..., Any]:
    """The function that MODULE:FUNCTION names; modules beside the caller are found too."""
    module, colon, function = path.partition(":")
    if not colon:
        raise click.BadParameter(f"{path!r}: expected MODULE:FUNCTION", param_hint="--reference")
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise click.BadParameter(f"{path!r}: {error}", param_hint="--reference") from error
    finally:
        sys.path.pop(0)


def _differences(values: Sequence[Value], wanted: Any) -> list[str]:
    """What differs between the outputs and the reference, a line an output; NaN equals NaN alone."""
    outputs = [value for value in values if value.output]
    if not outputs:
        raise click.UsageError("--reference needs an output to compare: mark one with --arg NAME=out:DTYPE[SHAPE]")
    parts = (
        [wanted[value.name] for value in outputs]
        if isinstance(wanted, dict)
        else [wanted]
        if len(outputs) == 1
        else list(wanted)
    )
    if len(parts) != len(outputs):
        raise click.UsageError(
            f"the reference returned {len(parts)} values for {len(outputs)} outputs ({', '.join(value.name for value in outputs)})"
        )
    lines = []
    for value, part in zip(outputs, parts, strict=True):
        got = value.value
        part = torch.as_tensor(part)
        if part.shape != got.shape:  # type: ignore[union-attr]
            lines.append(f"{value.name}: the reference has shape {tuple(part.shape)}, the output {tuple(got.shape)}")  # type: ignore[union-attr]
            continue
        tolerance = 0.0 if not got.dtype.is_floating_point else 32 * torch.finfo(got.dtype).eps  # type: ignore[union-attr]
        got, part = got.to(torch.float64), part.to(torch.float64)  # type: ignore[union-attr]
        bad = ~torch.isclose(
            got,
            part,
            rtol=tolerance,
            atol=tolerance * float(part.nan_to_num().abs().max()) if part.numel() else 0,
            equal_nan=True,
        )
        if bad.any():
            index = tuple(int(axis[0]) for axis in torch.nonzero(bad, as_tuple=True))
            lines.append(
                f"{value.name}{list(index)} is {got[index].item():.9g}, expected {part[index].item():.9g}; "
                f"{int(bad.sum()):,} of {bad.numel():,} elements differ"
            )
    return lines
