"""Helpers of the commands that use the results store: opening it, and suggesting names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

import click

from warpwise.lab.store import Store, StoreError


class StoreFailure(click.ClickException):
    """The store cannot be used. Exits with 2, like a usage error: 1 is for the result of a measurement."""

    exit_code = 2


def open_store(advice: str = "") -> Store:
    """Open the user's results store; a damaged one is reported and moved away.

    Raises ``StoreFailure``, ending in ``advice``.
    """
    try:
        return Store.open(report=lambda message: click.secho(message, fg="yellow", err=True))
    except StoreError as error:
        raise StoreFailure(f"{error}{advice}") from error


def full_name(op: str, kept: Collection[str]) -> str:
    """The one of the ``kept`` names that is ``op``, or the only one that is ``op`` in a namespace; else ``op``."""
    found = [name for name in kept if name.partition("::")[2] == op]
    return found[0] if op not in kept and len(found) == 1 else op


def near(name: str, names: Sequence[str]) -> str:
    """The end of a message about an unknown ``name``: similar names, or all of them."""
    if close := difflib.get_close_matches(name, names, 3, cutoff=0.5):
        return f"; did you mean {' or '.join(repr(one) for one in close)}?"
    return f"; there are {', '.join(names)}" if names else "; there is none"


def known(kind: str, asked: str, names: Sequence[str], hint: str) -> str:
    """The name in ``names`` that ``asked`` selects: itself, or for a rung its number (k02) or the rest of its name.

    Raises ``click.BadParameter`` with similar names. Verdicts have neither a dtype nor a size; the message says so if
    nothing was timed.
    """
    if asked in names:
        return asked
    parts = [name for name in names if asked in (name.partition("_")[0], name.partition("_")[2])]
    if len(set(parts)) == 1:
        return parts[0]
    if not names and kind != "rung":
        raise click.BadParameter(
            f"nothing was timed here, and a verdict holds for all verified sizes and dtypes, so it has no {kind}; omit "
            f"{hint} to list the verdicts",
            param_hint=hint,
        )
    raise click.BadParameter(f"no {kind} {asked!r} in the store{near(asked, parts or names)}", param_hint=hint)
