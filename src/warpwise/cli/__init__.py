"""The ``warpwise`` command and its subcommands, each in the module of its name."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import sys

import click

import warpwise

COMMANDS = {
    "check": "Run a kernel of a file, or a rung, on the CPU with all checks.",
    "climb": "Verify the rungs of an operation and, on a GPU, time the correct ones.",
    "cluster": "Find the spatial domains of a table, an array, an image or a volume.",
    "compare": "Compare two stored runs: what became faster or slower.",
    "device": "Show a device's limits, its computed peaks and its measured rates.",
    "doctor": "Show what works on this machine, and what to install for the rest.",
    "explain": "Explain why a kernel is slow: counters, limits, lines, what to try.",
    "history": "List the stored measurements, newest first.",
    "inductor": "Write the code that torch.compile generates for an expression.",
    "new": "Write a Python file with an operation, and verify it.",
    "ops": "List the operations, or the schema, rungs and sizes of one.",
    "profile": "Run under PyTorch's profiler and show where the time is spent.",
    "report": "Write a page for each operation, and an index.",
    "run": "Build a whole CUDA program and run it, its kernels checked on the CPU.",
    "train": "Train an image classifier, from a data file to a checkpoint.",
    "tune": "Find the fastest rung and configuration at each size.",
    "watch": "Verify, explain and time the kernels of a file at every save.",
}
"""The subcommands with their one-line help.

``commands/NAME.py`` declares the options of a command without importing PyTorch; ``NAME.py`` runs it.
"""


class Commands(click.Group):
    """The group of the commands in ``COMMANDS``. No ``--help`` imports PyTorch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"warpwise.cli.commands.{cmd_name}"), cmd_name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = difflib.get_close_matches(args[0], COMMANDS, 1)
        if near and args[0] not in COMMANDS:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(warpwise.__version__, prog_name="warpwise")
def cli() -> None:
    """Write a GPU kernel, verify it, see why it is slow, and make it faster than PyTorch."""


def main() -> None:
    """Entry point of the ``warpwise`` script. Ctrl-C exits with 130."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # PyTorch's profiler calls a machine without a GPU an error
    try:
        code = cli(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted; each file is written whole or not at all", err=True)
        code = 130
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = (
            "; free space in the temporary folder and in the cache, or set TMPDIR and WARPWISE_CACHE" if full else ""
        )
        click.echo(f"Error: {error}{advice}", err=True)
        code = 1
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    sys.exit(code if isinstance(code, int) else 0)
