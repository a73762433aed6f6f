"""``warpwise new``: write a file with an operation to start from."""

from __future__ import annotations

from pathlib import Path

import click

from warpwise.cli.targets import known_ops
from warpwise.lab import template


def new(name: str, output: Path | None) -> int:
    """Run ``warpwise new``, with the options of ``warpwise.cli.commands.new``."""
    if name.endswith(".py") and output is None:
        name, output = Path(name).stem, Path(name)
    try:
        text = template.operation(name)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="NAME") from error
    if name in known_ops():
        raise click.BadParameter(f"the operation {name!r} exists; choose another name", param_hint="NAME")
    path = output or Path(f"{name}.py")
    path = path / f"{name}.py" if path.is_dir() else path
    if path.suffix != ".py":
        raise click.BadParameter(
            f"{path}: expected a file name that ends in .py, or an existing folder", param_hint="--output"
        )
    if path.exists():
        raise click.UsageError(f"{path} exists; -o selects another file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as file:
            file.write(text)
    except OSError as error:
        raise click.BadParameter(f"{path}: cannot be written: {error}", param_hint="--output") from error
    click.echo(f"wrote {path}; `warpwise climb {path}` verifies it")
    return 0
