"""``warpwise cluster``: the spatial domains of a table, an array or an image."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from warpwise.cli.cluster_input import EXAMPLES, Points, example, read
from warpwise.cli.console import wide_console

PICTURE_SIDE = 800  # pixels of the longer side
FIGURES = ("beta", "elbo", "bic", "n_iter", "inertia")  # attributes of the estimators in the summary


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[INPUT]")
@click.option("--example", "name", type=click.Choice(EXAMPLES), help="Cluster synthetic points instead of INPUT.")
@click.option("--domains", type=click.IntRange(min=1), default=7, show_default=True, help="Number of domains.")
@click.option("--types", type=click.IntRange(min=1), help="Number of types that the domains are mixtures of.")
@click.option("--coords", help="Columns of a .csv file with the positions: x,y or x,y,z.")
@click.option("--shape", help="Shape of the grid that the points fill in row-major order: ROWS,COLUMNS.")
@click.option("--prior", type=click.Choice(["potts", "layers"]), default="potts", show_default=True)
@click.option("--covariance", type=click.Choice(["tied", "diag", "full", "t"]), default="tied", show_default=True)
@click.option("--min-region", type=click.IntRange(min=1), help="Merge regions of fewer points.")
@click.option("--contiguous", is_flag=True, help="Merge all regions of a domain but its largest.")
@click.option("--fast", is_flag=True, help="k-means on smoothed features, without a prior.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("domains"), show_default=True
)
def cluster(
    file: Path | None,
    name: str | None,
    domains: int,
    types: int | None,
    coords: str | None,
    shape: str | None,
    prior: str,
    covariance: str,
    min_region: int | None,
    contiguous: bool,
    fast: bool,
    seed: int,
    output: Path,
) -> int:
    """Find the spatial domains of INPUT: a .csv table, a .npy or .npz file, or an image.

    A .csv file has a header and numbers; the columns that --coords does not name are features. A .npy file is (N, D)
    with --shape, or an image (rows, columns, D). A .npz file has X (N, D), and coords or shape. Writes labels.npy,
    probabilities.npy, summary.json and, with Pillow, domains.png and uncertainty.png to the output folder.

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
    if fast and (types or min_region or contiguous or prior != "potts" or covariance != "tied"):
        raise click.UsageError("--fast takes no --types, --prior, --covariance, --min-region or --contiguous")
    if name is not None and (coords or shape):
        raise click.UsageError("--example takes no --coords or --shape")
    points = example(name, domains) if name is not None else read(_given(file), coords, _sizes(shape))
    model: Any
    if fast:
        model = SmoothedKMeans(domains, random_state=seed)
    else:
        model = SpatialMixture(
            domains,
            n_types=types,
            prior=prior,
            covariance=covariance,
            min_region=min_region,
            contiguous=contiguous,
            random_state=seed,
        )
    console = wide_console()
    start = time.perf_counter()
    try:
        with console.status(f"{points.X.shape[0]:,} points, {points.X.shape[1]} features"):
            model.fit(points.X, coords=points.coords, shape=points.shape)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    summary = {
        "points": points.X.shape[0],
        "features": points.X.shape[1],
        "sizes": np.bincount(model.labels_, minlength=domains).tolist(),
        "seconds": round(time.perf_counter() - start, 3),
        **{key: getattr(model, f"{key}_") for key in FIGURES if hasattr(model, f"{key}_")},
    }
    output.mkdir(parents=True, exist_ok=True)
    np.save(output / "labels.npy", model.labels_)
    (output / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    uncertainty = None
    if not fast:
        np.save(output / "probabilities.npy", model.probabilities_)
        uncertainty = model.uncertainty_
    written = _pictures(output, points, model.labels_, domains, uncertainty)
    for key, value in summary.items():
        console.print(f"{key:>9}  {value}")
    console.print(f"{'written':>9}  {output}" + ("" if written else " (no pictures: they need Pillow and two axes)"))
    return 0


def _given(file: Path | None) -> Path:
    assert file is not None
    return file


def _sizes(shape: str | None) -> tuple[int, ...] | None:
    try:
        return None if shape is None else tuple(int(size) for size in shape.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{shape!r}: expected ROWS,COLUMNS", param_hint="--shape") from error


def _pictures(output: Path, points: Points, labels: np.ndarray, domains: int, uncertainty: np.ndarray | None) -> bool:
    """Write the pictures, and return whether that was possible: points on two axes, and Pillow is installed."""
    try:
        from PIL import Image
    except ImportError:
        return False
    if points.shape is not None:
        places = np.indices(points.shape).reshape(len(points.shape), -1).T.astype(np.float64)
    else:
        assert points.coords is not None
        places = points.coords[:, ::-1]
    if places.shape[1] != 2:
        return False
    low, extent = places.min(0), np.ptp(places, axis=0)
    if points.shape is not None:
        pixel = places.astype(int)
    else:
        # With about as many pixels as points most pixels have a point.
        side = min(PICTURE_SIDE, max(1, int(np.sqrt(len(places)))))
        pixel = np.round((places - low) / max(extent.max(), 1e-300) * (side - 1)).astype(int)
    canvas = np.full((*(pixel.max(0) + 1), 3), 255, np.uint8)
    hue = np.arange(domains) * 256 // domains
    wheel = Image.fromarray(np.stack([hue, hue * 0 + 170, hue * 0 + 220], 1)[None].astype(np.uint8), "HSV")
    canvas[pixel[:, 0], pixel[:, 1]] = np.asarray(wheel.convert("RGB"))[0][labels]
    _save(canvas, output / "domains.png")
    if uncertainty is not None:
        canvas[pixel[:, 0], pixel[:, 1]] = np.round(255 * (1 - uncertainty))[:, None]
        _save(canvas, output / "uncertainty.png")
    return True


def _save(canvas: np.ndarray, path: Path) -> None:
    from PIL import Image

    scale = max(1, PICTURE_SIDE // max(canvas.shape[:2]))
    Image.fromarray(canvas.repeat(scale, 0).repeat(scale, 1)).save(path)
