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


def run(
    words: Sequence[str],
    arguments: Sequence[str],
    leaks: bool,
    include: Sequence[Path],
    define: Sequence[str],
    flags: Sequence[str],
    device: str | None,
    target: str,
    checks: str,
    timeout: float,
) -> int:
    """Run ``warpwise run``, with the options of ``warpwise.cli.commands.run``."""
    from warpwise.cli.kernel_options import require_device, require_target
    from warpwise.cuda.errors import CompileError, UnsupportedFeature
    from warpwise.cuda.program.build import Options
    from warpwise.cuda.program.session import Emulation

    console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
    require_target(target)
    on_gpu = require_device(device).type == "cuda"
    files, more = _split(words)
    arguments = [*more, *arguments]
    options = Options(tuple(folder.resolve() for folder in include), tuple(define), tuple(flags))
    try:
        if on_gpu:
            _run_on_gpu(files, options, arguments)
        return _run_on_cpu(console, files, options, arguments, leaks, Emulation(checks, timeout, target))
    except (CompileError, UnsupportedFeature) as error:
        console.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}")
        return 2


def _split(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The sources at the front of ``words``, and the words after them, which are arguments of the program."""
    files: list[Path] = []
    for word in words:
        if files and not word.endswith(_SOURCES):
            break
        path = Path(word)
        if not path.is_file():
            raise click.BadParameter(
                f"no file {word!r}" + ("; arguments of the program follow --" if files else ""),
                param_hint="MORE.cu" if files else "PROGRAM.cu",
            )
        files.append(path.resolve())
    return files, list(words[len(files) :])


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

    def notice(text: str) -> None:
        console.print(f"[dim]{escape(text)}[/]")

    library, units = build.program(files, options)
    session = Session(library, units, options, report, emulation, leaks=leaks, notice=notice)
    session.run(str(files[0].with_suffix("")), arguments)


def _run_on_gpu(files: list[Path], options: Any, arguments: list[str]) -> None:
    import torch

    from warpwise.cuda.program import on_gpu

    built = on_gpu.executable(files, options, torch.cuda.get_device_capability())
    sys.stdout.flush()
    os.execv(built, [str(files[0].with_suffix("")), *arguments])
