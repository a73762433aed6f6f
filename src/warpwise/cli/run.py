"""``warpwise run``: build and run a whole CUDA program, on the CPU with all checks, or on a GPU by nvcc."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from warpwise.cuda.program.session import Emulation

_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("words", nargs=-1, required=True, metavar="PROGRAM.cu [MORE.cu]... [-- ARGUMENTS...]")
@click.option("--check", "leaks", is_flag=True, help="Memory that is never freed is a finding, too.")
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
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Where it runs; by default a GPU if there is one.")
@click.option("--target", default="sm_90", show_default=True, help="The device whose limits apply on the CPU.")
@click.option(
    "--checks",
    type=click.Choice(["all", "bounds", "none"]),
    default="all",
    show_default=True,
    help="Checks of kernels; bounds: no races, no uninitialised memory.",
)
@click.option("--timeout", default=0.0, metavar="SECONDS", help="Limit of one emulated launch; 0: none.")
def run(
    words: Sequence[str],
    leaks: bool,
    include: Sequence[Path],
    define: Sequence[str],
    flags: Sequence[str],
    device: str | None,
    target: str,
    checks: str,
    timeout: float,
) -> int:
    """Build a CUDA program as it stands and run it, its kernels on the CPU with all checks.

    The host code calls the CUDA runtime API. Findings in kernels and in host code are printed with file and line: an
    out-of-range copy, a use after cudaFree, a host access to device memory, a missing cudaDeviceSynchronize before the
    host reads managed memory. Exits with the program's status, with 1 if there is a finding, with 2 if the program
    cannot be compiled. With a GPU the program is built by nvcc and runs there, without checks.

    \b
    warpwise run vector_add.cu
    warpwise run main.cu kernels.cu -I include -D N=1000 --check -- --size 64
    """
    from warpwise.cli.kernel_options import require_target
    from warpwise.cuda.errors import CompileError, UnsupportedFeature
    from warpwise.cuda.program.build import Options
    from warpwise.cuda.program.session import Emulation

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    require_target(target)
    files, arguments = _split(words)
    options = Options(tuple(folder.resolve() for folder in include), tuple(define), tuple(flags))
    try:
        if (device or _device()) == "cuda":
            _run_on_gpu(files, options, arguments)
        return _run_on_cpu(console, files, options, arguments, leaks, Emulation(checks, timeout, target))
    except (CompileError, UnsupportedFeature) as error:
        console.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}")
        return 2


def _split(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The sources at the front of ``words``, and the program's arguments: those after ``--``, or after the sources."""
    files: list[Path] = []
    for word in words:
        if files and not word.endswith(_SOURCES):
            break
        path = Path(word)
        if not path.is_file():
            if files:
                break
            raise click.BadParameter(f"no file {word!r}", param_hint="PROGRAM.cu")
        files.append(path.resolve())
    return files, list(words[len(files) :])


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _run_on_cpu(
    console: Console,
    files: list[Path],
    options: Any,
    arguments: list[str],
    leaks: bool,
    emulation: Emulation,
) -> int:
    from warpwise.cuda.errors import Finding
    from warpwise.cuda.program import build
    from warpwise.cuda.program.session import Session

    def report(found: object) -> None:
        if isinstance(found, Exception):
            text, name = f"{type(found).__name__}: {found}", type(found).__name__
        else:
            text = str(found)
            name = found.kind.__name__ if isinstance(found, Finding) else text.partition(":")[0]
        console.print(f"[bold red]{escape(name)}[/]{escape(text.removeprefix(name))}\n")

    library, units = build.program(files, options)
    session = Session(library, units, options, report, emulation, leaks=leaks)
    session.run(str(files[0].with_suffix("")), arguments)


def _run_on_gpu(files: list[Path], options: Any, arguments: list[str]) -> None:
    import torch

    from warpwise.cuda.program import on_gpu

    built = on_gpu.executable(files, options, torch.cuda.get_device_capability())
    sys.stdout.flush()
    os.execv(built, [str(files[0].with_suffix("")), *arguments])
