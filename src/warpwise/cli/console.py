"""Where the command prints to."""

from __future__ import annotations

import os

from rich.console import Console

PIPED_COLUMNS = 160


def wide_console() -> Console:
    """The terminal; or, into a file or a pipe, lines wide enough for a table, unless $COLUMNS says otherwise."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, width=PIPED_COLUMNS)
    return console
