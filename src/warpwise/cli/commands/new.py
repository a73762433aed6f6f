"""The options and the help of ``warpwise new``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("name")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file, or a folder for it.  [default: NAME.py]")
def new(**given: Any) -> int:
    """Write a Python file with an operation called NAME and verify it.

    The file holds a specification, a gradient and three rungs. Commands that take the name of an operation take the
    file too. An existing file is not overwritten.

    \b
    warpwise new softplus
    warpwise climb softplus.py
    """
    from warpwise.cli.new import new as run_new

    return run_new(**given)
