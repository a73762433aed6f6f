"""Calls of ``warpwise check``, and what it prints."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from warpwise.cli import cli


def check(*arguments: str | int | Path) -> Result:
    return CliRunner().invoke(cli, ["check", *map(str, arguments)], standalone_mode=False)


def said(result: Result) -> str:
    """What was printed and, if it ended in an error of the command line, its message; in one line."""
    message = getattr(result.exception, "message", "") or ""
    return " ".join(f"{result.output} {message}".split())
