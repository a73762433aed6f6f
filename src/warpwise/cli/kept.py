"""What the commands that read or fill the results store share: opening it, and saying which names are near."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import click

from warpwise.lab.store import Store, StoreError


class StoreFailure(click.ClickException):
    """The store cannot be used. Ends with 2, as wrong usage does: 1 is for what was measured."""

    exit_code = 2


def open_store(advice: str = "") -> Store:
    """The user's results store; a damaged one is reported and set aside. Raises ``StoreFailure`` with ``advice`` added."""
    try:
        return Store.open(report=lambda message: click.secho(message, fg="yellow", err=True))
    except StoreError as error:
        raise StoreFailure(f"{error}{advice}") from error


def near(name: str, names: Sequence[str]) -> str:
    """How a message goes on after an unknown ``name``: those that look like it, or all of them."""
    if close := difflib.get_close_matches(name, names, 3, cutoff=0.5):
        return f"; did you mean {' or '.join(repr(one) for one in close)}?"
    return f"; there are {', '.join(names)}" if names else "; there is none"


def known(kind: str, asked: str, names: Sequence[str], hint: str) -> str:
    """The one of ``names`` that ``asked`` means: itself, or for a rung its number (k02) or the rest of its name.

    Raises ``click.BadParameter`` saying which are near.
    """
    if asked in names:
        return asked
    parts = [name for name in names if asked in (name.partition("_")[0], name.partition("_")[2])]
    if len(set(parts)) == 1:
        return parts[0]
    raise click.BadParameter(f"no {kind} {asked!r} is kept{near(asked, parts or names)}", param_hint=hint)
