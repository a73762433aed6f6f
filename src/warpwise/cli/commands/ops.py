"""The options and the help of ``warpwise ops``."""

from __future__ import annotations

from typing import Any

import click


@click.command("ops")
@click.argument("name", metavar="[OP]", required=False)
def ops(**given: Any) -> int:
    """List the operations, or the schema, rungs, sizes, attributes, dtypes and layouts of OP.

    `climb`, `check`, `explain`, `profile` and `tune` accept these names. OP may be a Python file that defines an
    operation.
    """
    from warpwise.cli.ops import ops as run_ops

    return run_ops(**given)
