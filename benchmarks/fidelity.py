"""Accuracy of the emulated counters: record ncu's measurements of every CUDA rung, and compare them.

benchmarks/fidelity.py collect --out benchmarks/results/h200/ncu      # on a machine with a GPU and ncu
benchmarks/fidelity.py report                                         # anywhere: fidelity.json
benchmarks/fidelity.py docs                                           # docs/fidelity.md from fidelity.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import click

from warpwise import operation, ops  # noqa: F401 - importing ops registers them


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Record ncu's counters of every CUDA rung, and compare the emulated ones with them."""


@cli.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder for OP.json.")
@click.option("--ops", "names", default="", metavar="A,B", help="These operations; all unless given.")
@click.option(
    "--dtype", "dtypes", multiple=True, metavar="DTYPE", help="float16, ...; an operation's first unless given."
)
@click.option(
    "--rung",
    "rungs",
    multiple=True,
    metavar="RUNG",
    help="These rungs alone, put into the record there is; all unless given.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=6, show_default=True, help="Compiling processes at a time.")
def collect(out: Path, names: str, dtypes: tuple[str, ...], rungs: tuple[str, ...], jobs: int) -> None:
    """Measure by ncu, and time without it, every CUDA rung at its exact and its large points."""
    from benchmarks import fidelity_collect
    from benchmarks.fidelity_points import Selection

    from warpwise.lab.errors import MeasurementError

    chosen = [operation.get(name) for name in names.split(",")] if names else list(operation.all_ops())
    try:
        made = fidelity_collect.collect(chosen, Selection(dtypes, rungs), out, jobs, lambda text: click.echo(text))
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


@cli.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder for OP.json.")
@click.option("--device", default="h200", show_default=True, help="Whose records to measure stores for.")
def stores(out: Path, device: str) -> None:
    """Measure the stores of the recorded exact points again, in one pass, and write the records with them to OUT."""
    from benchmarks import fidelity_collect, fidelity_record
    from benchmarks.fidelity_points import Selection

    known = list(fidelity_record.records(device))
    dtypes = dict.fromkeys(launch.dtype for record in known for launch in record.launches)
    failures = fidelity_collect.measure_stores(known, Selection(tuple(dtypes)))
    out.mkdir(parents=True, exist_ok=True)
    for record in known:
        record.save(out / f"{record.op}.json")
    for failure in failures:
        click.echo(f"failed: {failure}")
    click.echo(f"{len(known)} records written to {out}")
    sys.exit(bool(failures))


@cli.command()
@click.option("--device", default="h200", show_default=True, help="Whose records to compare with.")
@click.option("--ops", "names", default="", metavar="A,B", help="These operations; all unless given.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(["exact", "large"]), help="These points; both unless given."
)
@click.option("--budget", type=float, default=2.0, show_default=True, help="Seconds a launch at a large point.")
@click.option("--json/--no-json", "write", default=True, help="Write benchmarks/results/DEVICE/fidelity.json.")
def report(device: str, names: str, kinds: tuple[str, ...], budget: float, write: bool) -> None:
    """Compare on the CPU: counters at the exact points, limiters and times at the large ones."""
    from benchmarks import fidelity_compare, fidelity_record, fidelity_tables
    from benchmarks.fidelity_report import Report, rows

    from warpwise.lab.explain import Options

    known = [record for record in fidelity_record.records(device) if not names or record.op in names.split(",")]
    if not known:
        raise click.ClickException(
            f"no records of {device} in {fidelity_record.RESULTS / device / 'ncu'}; `collect` makes them"
        )
    found = Report()
    for record in known:
        if not kinds or "exact" in kinds:
            options = Options(checks="none", blocks="all")
            found.exact += fidelity_compare.compare(record, "exact", options)
        if not kinds or "large" in kinds:
            found.large += fidelity_compare.compare(record, "large", Options(checks="none", budget=budget))
        click.echo(f"{record.op}: {sum(one.recorded.op == record.op for one in (*found.exact, *found.large))} launches")
    figures, operations, misses = found.summary(), found.operations(), found.misses()
    click.echo(fidelity_tables.as_text(figures, operations, misses))
    if write and not names and not kinds:
        names_kept = ("device", "date", "ncu", "nvrtc", "driver", "multiprocessors")
        where = {name: known[0].environment[name] for name in names_kept}
        data = {
            "environment": where, "summary": figures, "operations": operations, "misses": misses, "exact": rows(found.exact),
            "large": rows(found.large),
        }  # fmt: skip
        fidelity_record.write(fidelity_record.RESULTS / device / "fidelity.json", data)


@cli.command()
@click.option("--device", default="h200", show_default=True, help="Whose fidelity.json to show.")
def docs(device: str) -> None:
    """Write docs/fidelity.md from what `report` wrote."""
    from benchmarks import fidelity_record, fidelity_tables

    from warpwise import cache

    data = json.loads((fidelity_record.RESULTS / device / "fidelity.json").read_text())
    cache.atomic_write(ROOT / "docs" / "fidelity.md", fidelity_tables.page(data))


@cli.command(hidden=True)
@click.argument("mode", type=click.Choice(["compile", "time", "profile"]))
@click.argument("op")
@click.argument("kind", type=click.Choice(["exact", "large"]))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--dtype", "dtypes", multiple=True)
@click.option("--rung", "rungs", multiple=True)
def child(mode: str, op: str, kind: str, out: Path, dtypes: tuple[str, ...], rungs: tuple[str, ...]) -> None:
    """One operation in a process of its own, as ``collect`` starts it."""
    from benchmarks import fidelity_collect
    from benchmarks.fidelity_points import Selection

    chosen = Selection(dtypes, rungs)
    fidelity_collect.child(mode, op, "exact" if kind == "exact" else "large", chosen, out)


if __name__ == "__main__":
    cli()
