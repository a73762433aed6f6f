"""The console that the commands print to."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from pathlib import Path

import click
import torch
from rich.console import Console

import warpwise
from warpwise.cuda.errors import KernelError, KernelTimeout

PIPED_COLUMNS = 160
_PACKAGE = Path(warpwise.__file__).parent
_LIBRARIES = Path(os.__file__).parent, Path(torch.__file__).parents[1]


def raised_in(error: BaseException) -> str:
    """`` (function, file:line)`` of the function of an operation that raised ``error``; empty if none did."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        ours = path.is_relative_to(_PACKAGE) and not path.is_relative_to(_PACKAGE / "ops")
        if path.is_file() and not ours and not any(path.is_relative_to(library) for library in _LIBRARIES):
            return f" ({frame.name}, {path}:{frame.lineno})"
    return ""


def failed(op: str, error: Exception) -> click.ClickException:
    """One line about ``error`` of the operation ``op``. Raises ``error`` itself if another part raised it."""
    place, known = raised_in(error), isinstance(error, (TypeError, ValueError, RuntimeError))
    if isinstance(error, click.ClickException) or not (place or known):
        raise error
    text = str(error) if known and op in str(error) else f"{op}: {type(error).__name__}: {error}"
    return click.ClickException(f"{text}{place}")


def print_time_limit(console: Console, kinds: Iterable[type[KernelError]], timeout: float) -> None:
    """Print how to raise the time limit of a launch, if one of the findings is that it was exceeded."""
    if any(issubclass(kind, KernelTimeout) for kind in kinds):
        console.print(f"[dim]the time limit of a launch is {timeout:g} s; --timeout SECONDS sets another[/]")


def counted(count: int, noun: str) -> str:
    """``1 point``, ``2,000 points``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def wide_console() -> Console:
    """A console for standard output. For a file or a pipe it is ``PIPED_COLUMNS`` wide, unless $COLUMNS is set."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, emoji=False, width=PIPED_COLUMNS)
    return console
