"""How true the emulated counters are: record what ncu measures of every CUDA rung, and compare.

benchmarks/fidelity.py collect --out benchmarks/results/h200/ncu      # on a machine with a GPU and ncu
benchmarks/fidelity.py report                                         # anywhere
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import click

from warpwise import ops, registry  # noqa: F401 - importing ops registers them


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Record ncu's counters of every CUDA rung, and compare the emulated ones with them."""


@cli.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder for OP.json.")
@click.option("--ops", "names", default="", metavar="A,B", help="These operations; all unless given.")
@click.option(
    "--dtype", "dtypes", multiple=True, metavar="DTYPE", help="float16, ...; an operation's first unless given."
)
@click.option("--jobs", type=click.IntRange(min=1), default=6, show_default=True, help="Compiling processes at a time.")
def collect(out: Path, names: str, dtypes: tuple[str, ...], jobs: int) -> None:
    """Measure by ncu, and time without it, every CUDA rung at its exact and its large points."""
    from benchmarks import fidelity_collect

    from warpwise.lab.errors import MeasurementError

    chosen = [registry.get(name) for name in names.split(",")] if names else list(registry.all_ops())
    try:
        made = fidelity_collect.collect(chosen, dtypes, out, jobs, lambda text: click.echo(text))
    except MeasurementError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"\n{'operation':24}{'exact':>8}{'large':>8}{'timed':>8}{'metrics':>9}{'failed':>8}")
    for name, record in made.items():
        kinds = [sum(launch.kind == kind for launch in record.launches) for kind in ("exact", "large")]
        timed = sum(launch.time is not None for launch in record.launches)
        metrics = len({metric for launch in record.launches for metric in launch.metrics})
        click.echo(f"{name:24}{kinds[0]:8}{kinds[1]:8}{timed:8}{metrics:9}{len(record.failures):8}")
    if any(record.failures or not record.launches for record in made.values()):
        sys.exit(1)


@cli.command(hidden=True)
@click.argument("mode", type=click.Choice(["compile", "time", "profile"]))
@click.argument("op")
@click.argument("kind", type=click.Choice(["exact", "large"]))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--dtype", "dtypes", multiple=True)
def child(mode: str, op: str, kind: str, out: Path, dtypes: tuple[str, ...]) -> None:
    """One operation in a process of its own, as ``collect`` starts it."""
    from benchmarks import fidelity_collect

    fidelity_collect.child(mode, op, "exact" if kind == "exact" else "large", dtypes, out)


if __name__ == "__main__":
    cli()
