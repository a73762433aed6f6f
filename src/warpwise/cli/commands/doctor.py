"""The options and the help of ``warpwise doctor``."""

from __future__ import annotations

from typing import Any

import click


@click.command()
def doctor(**given: Any) -> int:
    """Show what works on this machine, and what to install for the rest. Exits with 1 if no kernel can run."""
    from warpwise.cli.doctor import doctor as run_doctor

    return run_doctor(**given)
