"""``warpwise inductor``: what torch.compile makes of an expression, as a rung file of its own to start from."""

from __future__ import annotations

import importlib.metadata
import shlex
from collections.abc import Sequence
from math import prod
from pathlib import Path

import click
import torch
from rich.console import Console
from rich.markup import escape

from warpwise import cache, cuda
from warpwise.cli.console import wide_console
from warpwise.cli.values import parse
from warpwise.lab.inductor import NEEDS, Generated, InductorError, NotWritable, checked, generate, standalone
from warpwise.lab.timing.environment import place, resolve

EMULATED = 1 << 20  # elements up to which a file is tried on the CPU before it is given out
SUFFIXES = {"triton": ".py", "cpp": ".cpp"}


@click.command()
@click.argument("expression")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    required=True,
    metavar="NAME=VALUE",
    help="A tensor or a number that the expression names: x=f32[4096,4096], n=3.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; the terminal unless given.",
)
@click.option("--backend", type=click.Choice(["triton", "cpp"]), help="triton on a GPU, cpp on a CPU unless given.")
@click.option("--device", "where", help="cuda, cuda:1 or cpu; a GPU unless there is none.")
@click.option("--raw", is_flag=True, help="Inductor's own text, unchanged.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def inductor(
    expression: str, arguments: Sequence[str], output: Path | None, backend: str | None, where: str | None, raw: bool, force: bool
) -> int:  # fmt: skip
    """Save the Triton code that torch.compile generates for EXPRESSION as a readable file that runs and checks itself.

    EXPRESSION is Python with torch and the arguments, nothing else. Several kernels and calls of libraries stay in their order.

    \b
    warpwise inductor 'torch.softmax(x, -1)' --arg 'x=f32[4096,4096]' -o k00_inductor.py
    """
    console = wide_console()
    try:
        device = resolve(where)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--device") from error
    chosen = backend or ("triton" if device.type == "cuda" else "cpp")
    _require_output(output, chosen, backend, raw, force)
    values = [parse(argument, position) for position, argument in enumerate(arguments)]
    names = [value.name for value in values]
    if len(set(names)) < len(names):
        raise click.BadParameter(f"{', '.join(names)}: a name twice", param_hint="--arg")
    given = {value.name: value.value for value in values}
    try:
        with console.status("torch.compile is at work"):
            made = generate(expression, given, device, chosen)  # type: ignore[arg-type]
        heading = _heading(made, arguments)
        text = _raw(made, heading) if raw else _cpp(made, heading) if chosen == "cpp" else standalone(made, heading)
        note = _verdict(made) if raw or chosen == "cpp" else _tried(console, made, text)
    except (InductorError, NotWritable) as error:
        raise click.ClickException(str(error)) from error
    if output is None:
        click.echo(text)
    else:
        cache.atomic_write(output, text)
        console.print(f"kept in {escape(str(output))}")
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    errors.print(f"[dim]{escape(note)}[/]")
    if device.type == "cpu" and backend is None:
        errors.print(f"[yellow]{escape(NEEDS[0].upper() + NEEDS[1:])} (--backend triton).[/]")
    return 0


def _require_output(output: Path | None, chosen: str, backend: str | None, raw: bool, force: bool) -> None:
    """Refuse a file that cannot be written, before minutes go into compiling."""
    if output is None:
        return
    if not raw and output.suffix == ".py" and chosen == "cpp" and backend is None:
        raise click.ClickException(f"{output}: {NEEDS} (--backend triton), or name a .cpp file to keep the C++ kernels")
    if not raw and output.suffix != SUFFIXES[chosen]:
        raise click.BadParameter(f"{output}: expected a name that ends in {SUFFIXES[chosen]}", param_hint="-o")
    if output.exists() and not force:
        raise click.BadParameter(f"{output}: is there already; --force writes over it", param_hint="-o")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        probe = output.with_name(f".{output.name}.try")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise click.BadParameter(f"{output}: cannot be written: {error.strerror or error}", param_hint="-o") from error


def _heading(made: Generated, arguments: Sequence[str]) -> list[str]:
    """Why the file exists, who wrote its kernels, and what was taken out."""
    triton = importlib.metadata.version("triton")
    command = " ".join(
        ["warpwise inductor", shlex.quote(made.expression), *(f"--arg {shlex.quote(text)}" for text in arguments)]
    )
    lines = [
        f"{made.expression}, as torch.compile writes it: the starting point of a ladder.",
        "",
        f"Generated by TorchInductor of torch {torch.__version__}{f' and Triton {triton}' if made.backend == 'triton' else ''} on",
        f"{place(made.device)}. Asked for:",
        f"    {command}{'' if made.device.type == 'cuda' else f' --backend {made.backend}'}",
    ]
    if made.backend == "cpp":
        return lines
    lines += [
        "Kernels and the order of calls are Inductor's. Left out: its heuristics (the decorators that tune block sizes), its checks of",
        "strides and alignment (require has them), its stream and memory bookkeeping, and assignments that nothing reads.",
        "Block sizes: those that its tuning settled on here."
        if made.blocks
        else "Block sizes: a rule of Warpwise's, since nothing was tuned; Inductor tries several on a GPU.",
    ]
    if made.device.type == "cpu":
        lines += [
            "Written without a GPU, by Inductor's Triton back end for CPUs: the same code generator, but for a GPU it may fuse and split",
            "reductions otherwise, and use other elementary functions.",
        ]
    if not made.program.kernels:
        lines.append("There is no Triton kernel in it: torch.compile calls libraries for all of this.")
    return lines


def _raw(made: Generated, heading: Sequence[str]) -> str:
    return "\n".join([*(f"# {line}".rstrip() for line in heading[:5]), "", made.code])


def _cpp(made: Generated, heading: Sequence[str]) -> str:
    """The C++ kernels in their order, and how they are called."""
    parts = ["\n".join(f"// {line}".rstrip() for line in heading)]
    for kernel in made.program.kernels:
        parts.append((f"// {kernel.nodes}\n" if kernel.nodes else "") + f"// {kernel.name}\n{kernel.function}")
    named = dict(zip(made.program.arguments, made.order, strict=True))
    calls = ["// Called in this order, with " + ", ".join(f"{name} = {own}" for own, name in named.items()) + ":"]
    calls += [f"//   {line}" for line in made.program.body]
    return "\n\n".join([*parts, "\n".join([*calls, f"//   return {', '.join(made.program.returned)}"])])


def _verdict(made: Generated) -> str:
    if made.difference is None:
        return "not run here: no Triton compiler for CPUs is installed with torch"
    if made.difference == float("inf"):
        raise InductorError("what torch.compile computes differs from eager in shape, dtype or NaN")
    return f"the compiled code was run: its largest difference from eager is {made.difference:.3g}"


def _tried(console: Console, made: Generated, text: str) -> str:
    """Run the file's own check where that takes seconds. Raises ``NotWritable`` if it fails."""
    elements = sum(prod(tensor.shape) for tensor in (*made.inputs.values(), *made.outputs))
    if made.device.type == "cpu" and elements > EMULATED:
        return f"not run here: {elements:,} elements take long emulated; run the file to check it"
    try:
        with console.status("checking the file"):
            checked(text)
    except (AssertionError, cuda.KernelError) as error:
        raise NotWritable(
            f"the file made of Inductor's output is wrong here, and was not kept; --raw keeps Inductor's own text: {error}"
        ) from error
    return f"the file's own check passed on {place(made.device)}: it gives what eager gives"
