"""Accuracy of the emulated counters: record the counters of the CUDA rungs by ncu, and compare.

benchmarks/fidelity.py collect --out benchmarks/results/h200/ncu      # on a machine with a GPU and ncu
benchmarks/fidelity.py report                                         # on any machine: writes fidelity.json
benchmarks/fidelity.py docs                                           # writes docs/fidelity.md from fidelity.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import click
from benchmarks.fidelity_points import EXACT, MORE_LARGE, REASONS

from warpwise import cache, operation, ops  # noqa: F401 - importing ops registers them
from warpwise.lab.errors import MeasurementError
from warpwise.lab.explain import Options
from warpwise.lab.fidelity import (
    Kind,
    ProfiledPoint,
    Record,
    Report,
    RungFilter,
    compare,
    not_executed,
    points,
    recorded_points,
    records,
    tables,
)
from warpwise.lab.fidelity.collect import Children, measure_stores
from warpwise.lab.fidelity.collect import collect as measure
from warpwise.lab.fidelity.record import write as write_json
from warpwise.lab.fidelity.report import rows
from warpwise.operation import Op, assume_sm_count

CHILDREN = Children(("warpwise.ops",))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Record ncu's counters of the CUDA rungs, and compare the emulated counters with them."""


@cli.command()
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to which OP.json is written."
)
@click.option("--ops", "names", default="", metavar="A,B", help="Operations to measure.  [default: all]")
@click.option(
    "--dtype", "dtypes", multiple=True, metavar="DTYPE", help="float16, ...  [default: the first a rung accepts]"
)
@click.option(
    "--rung",
    "rungs",
    multiple=True,
    metavar="RUNG",
    help="Measure only these rungs and update the existing record.  [default: all]",
)
@click.option("--jobs", type=click.IntRange(min=1), default=6, show_default=True, help="Number of compiling processes.")
def collect(out: Path, names: str, dtypes: tuple[str, ...], rungs: tuple[str, ...], jobs: int) -> None:
    """Measure CUDA rungs with ncu, and time them without it, at their exact and their large points."""
    chosen = [operation.get(name) for name in names.split(",")] if names else list(operation.all_ops())
    selection = RungFilter(dtypes, rungs)
    todo = {
        op.name: {kind: points(op, cases(op, kind), kind, selection) for kind in ("exact", "large")} for op in chosen
    }
    try:
        made = measure(todo, out, CHILDREN, into=bool(rungs), jobs=jobs, report=click.echo)
    except MeasurementError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"\n{'operation':24}{'exact':>8}{'large':>8}{'timed':>8}{'metrics':>9}{'failed':>8}")
    for name, of_op in made.items():
        kinds = [sum(launch.kind == kind for launch in of_op.launches) for kind in ("exact", "large")]
        timed = sum(launch.time is not None for launch in of_op.launches)
        metrics = len({metric for launch in of_op.launches for metric in launch.metrics})
        click.echo(f"{name:24}{kinds[0]:8}{kinds[1]:8}{timed:8}{metrics:9}{len(of_op.failures):8}")
    if any(of_op.failures or not of_op.launches for of_op in made.values()):
        sys.exit(1)


def cases(op: Op, kind: Kind) -> Sequence[operation.Case]:
    """The cases to record of an operation."""
    if kind == "exact":
        return EXACT.get(op.name, ())
    sizes = op.spec.sizes
    return [case for case in sizes if case is sizes[0] or case.name in ("ragged", *MORE_LARGE.get(op.name, ()))]


@cli.command()
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to which OP.json is written."
)
@click.option("--device", default="h200", show_default=True, help="Device whose records to update.")
def stores(out: Path, device: str) -> None:
    """Measure the stores of the recorded exact points again, in one pass, and write the updated records to OUT."""
    known = list(records(RESULTS / device / "ncu"))
    exact: list[ProfiledPoint] = [point for of_op in known for point in recorded_points(of_op, "exact")]
    failures = measure_stores(known, exact, CHILDREN)
    out.mkdir(parents=True, exist_ok=True)
    for of_op in known:
        of_op.save(out / f"{of_op.op}.json")
    for failure in failures:
        click.echo(f"failed: {failure}")
    click.echo(f"{len(known)} records written to {out}")
    sys.exit(bool(failures))


@cli.command("report")
@click.option("--device", default="h200", show_default=True, help="Device whose records to compare with.")
@click.option("--ops", "names", default="", metavar="A,B", help="Operations to compare.  [default: all]")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(["exact", "large"]), help="Points.  [default: both]")
@click.option("--budget", type=float, default=2.0, show_default=True, help="Seconds for a launch at a large point.")
@click.option("--json/--no-json", "write", default=True, help="Write benchmarks/results/DEVICE/fidelity.json.")
def report_command(device: str, names: str, kinds: tuple[str, ...], budget: float, write: bool) -> None:
    """Compare on the CPU: counters at the exact points, limiters and times at the large points."""
    folder = RESULTS / device / "ncu"
    known: list[Record] = [of_op for of_op in records(folder) if not names or of_op.op in names.split(",")]
    if not known:
        raise click.ClickException(f"no records of {device} in {folder}; `collect` writes them")
    found = Report(not_executed=not_executed(operation.all_ops()), reasons=REASONS)
    for of_op in known:
        with assume_sm_count(int(of_op.environment["multiprocessors"])):
            if not kinds or "exact" in kinds:
                found.exact += compare(of_op, "exact", Options(checks="none", blocks="all"))
            if not kinds or "large" in kinds:
                found.large += compare(of_op, "large", Options(checks="none", budget=budget))
        click.echo(f"{of_op.op}: {sum(one.recorded.op == of_op.op for one in (*found.exact, *found.large))} launches")
    figures, operations, misses = found.summary(), found.operations(), found.misses()
    click.echo(tables.as_text(figures, operations, misses))
    if write and not names and not kinds:
        kept = ("device", "date", "ncu", "nvrtc", "driver", "multiprocessors")
        data = {
            "environment": {name: known[0].environment[name] for name in kept}, "summary": figures,
            "operations": operations,
            "misses": misses, "exact": rows(found.exact), "large": rows(found.large),
        }  # fmt: skip
        write_json(RESULTS / device / "fidelity.json", data)


@cli.command()
@click.option("--device", default="h200", show_default=True, help="Device whose fidelity.json to show.")
def docs(device: str) -> None:
    """Write docs/fidelity.md from the output of `report`."""
    data = json.loads((RESULTS / device / "fidelity.json").read_text())
    cache.atomic_write(ROOT / "docs" / "fidelity.md", tables.page(data))


if __name__ == "__main__":
    cli()
