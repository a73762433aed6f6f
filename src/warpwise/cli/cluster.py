"""``warpwise cluster``: the spatial domains of a table, an array, an image or a volume."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from warpwise.cli.cluster_input import Points, example, read
from warpwise.cli.cluster_output import folder, write
from warpwise.cli.console import wide_console

FIGURES = ("beta", "elbo", "bic", "n_iter", "inertia")  # attributes of the estimators in the summary
RESTARTS = "restarts.pt"  # in the output folder, while a fit is not finished
DOMAINS = {"mni": 3, "astronaut": 6}
INTERRUPTED = 130
PARAMETERS = {"missing='marginalise'": "--missing marginalise", "n_domains:": "--domains:", "n_types:": "--types:"}


def cluster(
    file: Path | None,
    name: str | None,
    domains: int | None,
    types: int | None,
    coords: str | None,
    ignore: str | None,
    basis: str,
    shape: str | None,
    prior: str,
    covariance: str,
    min_region: int | None,
    contiguous: bool,
    missing: str,
    starts: int,
    resume: bool,
    fast: bool,
    seed: int,
    output: Path,
) -> int:
    """Run ``warpwise cluster``, with the options of ``warpwise.cli.commands.cluster``."""
    try:
        from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture
        from warpwise.apps.clustering.checkpoint import CheckpointError
    except ImportError as error:
        raise click.UsageError(str(error)) from error
    if (file is None) == (name is None):
        raise click.UsageError("give either INPUT or --example")
    if fast and (types or min_region or contiguous or resume or (prior, covariance, missing, starts) != _PLAIN):
        refused = "--types, --prior, --covariance, --min-region, --contiguous, --missing, --starts and --resume"
        raise click.UsageError(f"--fast takes none of {refused}")
    if name is not None and (coords or shape or ignore):
        raise click.UsageError("--example takes no --coords, --ignore or --shape")
    if not -(2**63) <= seed < 2**64:
        raise click.UsageError(f"--seed: expected an integer from -2**63 to 2**64 - 1, got {seed}")
    k = domains or DOMAINS.get(name or "", 7)
    if name is not None:
        points = example(name, k)
    else:
        points = read(_given(file), coords, _sizes(shape), basis, ignore, missing == "marginalise")
    model: Any
    if fast:
        model = SmoothedKMeans(k, random_state=seed)
    else:
        model = SpatialMixture(
            k,
            n_types=types,
            prior=prior,
            covariance=covariance,
            min_region=min_region,
            contiguous=contiguous,
            missing=missing,
            n_init=starts,
            random_state=seed,
        )
    console = wide_console()
    with folder(output, *(() if fast else (RESTARTS,))):
        begin = time.perf_counter()
        try:
            _fit(console, model, points, None if fast else output / RESTARTS, resume)
        except CheckpointError as error:
            raise click.UsageError(f"--resume: {error.reason}; without --resume the run starts again") from error
        except ValueError as error:
            raise click.UsageError(_with_options(str(error))) from error
        summary = {
            "input": name or str(file),
            "points": points.X.shape[0],
            "features": points.X.shape[1],
            "sizes": np.bincount(model.labels_, minlength=k).tolist(),
            "seconds": round(time.perf_counter() - begin, 3),
            **{key: getattr(model, f"{key}_") for key in FIGURES if hasattr(model, f"{key}_")},
        }
        drawn = write(output, points, model, k, summary)
    for key, value in summary.items():
        console.print(f"{key:>9}  {value}")
    console.print(f"{'written':>9}  {output}" + ("" if drawn else " (no pictures: they need Pillow, and two axes)"))
    return 0


def _with_options(message: str) -> str:
    """An error of ``fit`` with the options of the command in place of the parameters."""
    for parameter, option in PARAMETERS.items():
        message = message.replace(parameter, option)
    return message


_PLAIN = ("potts", "tied", "error", 16)


def _fit(console: Console, model: Any, points: Points, kept: Path | None, resume: bool) -> None:
    """Fit with a bar of the starts. On Ctrl-C the starts that are finished stay in the file ``kept``."""
    if kept is None:
        model.fit(points.X, **points.structure())
        return
    if not resume:
        kept.unlink(missing_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        title = f"{points.X.shape[0]:,} points, {points.X.shape[1]} features: "
        task = bar.add_task(title + "starts", total=model.n_init)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, description=title + ("starts" if done < total else "best start"))

        try:
            model.fit(points.X, **points.structure(), checkpoint=kept, progress=show)
        except KeyboardInterrupt:
            bar.stop()
            if kept.exists():
                click.echo(f"interrupted; finished starts are in {kept}; --resume continues from them", err=True)
            else:
                click.echo("interrupted before a start was finished", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None


def _given(file: Path | None) -> Path:
    assert file is not None
    return file


def _sizes(shape: str | None) -> tuple[int, ...] | None:
    try:
        return None if shape is None else tuple(int(size) for size in shape.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{shape!r}: expected ROWS,COLUMNS", param_hint="--shape") from error
