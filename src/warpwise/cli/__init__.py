"""The ``warpwise`` command and its subcommands."""

from __future__ import annotations

import sys

import click

import warpwise
from warpwise.cli.check import check
from warpwise.cli.climb import climb
from warpwise.cli.compare import compare
from warpwise.cli.device import device
from warpwise.cli.doctor import doctor
from warpwise.cli.explain import explain
from warpwise.cli.history import history
from warpwise.cli.inductor import inductor
from warpwise.cli.new import new
from warpwise.cli.ops import ops
from warpwise.cli.profile import profile
from warpwise.cli.report import report
from warpwise.cli.tune import tune
from warpwise.cli.watch import watch


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(warpwise.__version__, prog_name="warpwise")
def cli() -> None:
    """Write a GPU kernel, know that it is right, see why it is slow, and beat PyTorch with it."""


for command in (
    ops,
    new,
    climb,
    tune,
    check,
    explain,
    profile,
    watch,
    inductor,
    history,
    compare,
    report,
    doctor,
    device,
):
    cli.add_command(command)


def main() -> None:
    """Entry point of the ``warpwise`` script. Ctrl-C exits with 130."""
    try:
        code = cli(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted; no file is incomplete", err=True)
        code = 130
    except OSError as error:
        click.echo(f"Error: {error}", err=True)
        code = 1
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    sys.exit(code if isinstance(code, int) else 0)
