"""``warpwise cluster``: the spatial domains of a table, an array, an image or a volume."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from warpwise.cli.cluster_input import EXAMPLES, Points, example, read
from warpwise.cli.cluster_output import write
from warpwise.cli.console import wide_console

FIGURES = ("beta", "elbo", "bic", "n_iter", "inertia")  # attributes of the estimators in the summary
RESTARTS = "restarts.pt"  # in the output folder, while a fit is not finished
DOMAINS = {"mni": 3, "astronaut": 6}
INTERRUPTED = 130


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[INPUT]")
@click.option("--example", "name", type=click.Choice(EXAMPLES), help="Cluster an example instead of INPUT.")
@click.option("--domains", type=click.IntRange(min=1), help="Number of domains; 7, or that of the example.")
@click.option("--types", type=click.IntRange(min=1), help="Number of types that the domains are mixtures of.")
@click.option("--coords", help="Columns of a table with the positions: x,y or x,y,z.")
@click.option("--basis", default="X_pca", show_default=True, help="Features of a .h5ad file: a key of obsm, or X.")
@click.option("--shape", help="Shape of the grid that the points fill in row-major order: ROWS,COLUMNS.")
@click.option("--prior", type=click.Choice(["potts", "layers"]), default="potts", show_default=True)
@click.option("--covariance", type=click.Choice(["tied", "diag", "full", "t"]), default="tied", show_default=True)
@click.option("--min-region", type=click.IntRange(min=1), help="Merge regions of fewer points.")
@click.option("--contiguous", is_flag=True, help="Merge all regions of a domain but its largest.")
@click.option("--missing", type=click.Choice(["error", "marginalise"]), default="error", show_default=True, help="NaN.")
@click.option("--starts", type=click.IntRange(min=1), default=16, show_default=True, help="Number of starts.")
@click.option("--resume", is_flag=True, help="Continue a run that was interrupted, from the starts that it finished.")
@click.option("--fast", is_flag=True, help="k-means on smoothed features, without a prior.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("domains"), show_default=True
)
def cluster(
    file: Path | None,
    name: str | None,
    domains: int | None,
    types: int | None,
    coords: str | None,
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
    """Find the spatial domains of INPUT.

    \b
    .csv, .parquet   a table of numbers; the columns that --coords does not name are features
    .h5ad            features --basis, positions obsm["spatial"] or the columns --coords of obs
    .npy             (N, D) with --shape, or an image (rows, columns, D)
    .npz             X (N, D), and coords or shape
    .nii, .nii.gz    a NIfTI volume; voxels that are 0 are left out
    .png, .jpg, ...  an image

    Writes labels.npy, probabilities.npy, summary.json and, with Pillow, domains.png and uncertainty.png to the output
    folder, and labels.nii.gz for a NIfTI volume. Ctrl-C keeps the finished starts there.

    \b
    warpwise cluster cells.csv --coords x,y --domains 7 --types 20 -o domains
    warpwise cluster --example layered --prior layers
    """
    try:
        from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture
    except ImportError as error:
        raise click.UsageError(str(error)) from error
    if (file is None) == (name is None):
        raise click.UsageError("give either INPUT or --example")
    if fast and (types or min_region or contiguous or resume or (prior, covariance, missing) != _PLAIN):
        raise click.UsageError(
            "--fast takes no --types, --prior, --covariance, --min-region, --contiguous, --missing or --resume"
        )
    if name is not None and (coords or shape):
        raise click.UsageError("--example takes no --coords or --shape")
    k = domains or DOMAINS.get(name or "", 7)
    points = example(name, k) if name is not None else read(_given(file), coords, _sizes(shape), basis)
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
    begin = time.perf_counter()
    try:
        _fit(console, model, points, None if fast else output / RESTARTS, resume)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
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


_PLAIN = ("potts", "tied", "error")


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
