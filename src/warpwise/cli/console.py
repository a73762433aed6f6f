"""The console that the commands print to."""

from __future__ import annotations

import os

from rich.console import Console

PIPED_COLUMNS = 160


def wide_console() -> Console:
    """A console for standard output. For a file or a pipe it is ``PIPED_COLUMNS`` wide, unless $COLUMNS is set."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, width=PIPED_COLUMNS)
    return console
