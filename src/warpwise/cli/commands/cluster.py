"""The options and the help of ``warpwise cluster``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpwise.cli.commands.options import wait_without_spinning

EXAMPLES = ("layered", "potts", "composed", "mni", "astronaut")


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[INPUT]")
@click.option("--example", "name", type=click.Choice(EXAMPLES), help="Cluster an example instead of INPUT.")
@click.option("--domains", type=click.IntRange(min=1), help="Number of domains.  [default: 7, or that of the example]")
@click.option("--types", type=click.IntRange(min=1), help="Number of types that the domains are mixtures of.")
@click.option("--coords", metavar="COLUMNS", help="Columns of a table with the positions: x,y or x,y,z.")
@click.option("--ignore", metavar="COLUMNS", help="Columns of a table that are not features, such as name,cluster.")
@click.option(
    "--basis", metavar="KEY", default="X_pca", show_default=True, help="Features of a .h5ad file: a key of obsm, or X."
)
@click.option(
    "--shape", metavar="SIZES", help="Shape of the grid that the points fill in row-major order: ROWS,COLUMNS."
)
@click.option(
    "--prior",
    type=click.Choice(["potts", "layers"]),
    default="potts",
    show_default=True,
    help="potts: neighbours tend to share a domain; layers: neighbours tend to be in the same or in adjacent layers.",
)
@click.option(
    "--covariance",
    type=click.Choice(["tied", "diag", "full", "t"]),
    default="tied",
    show_default=True,
    help="Of the features. tied: one for all domains; diag, full: one per domain; t: Student's t, tied scale.",
)
@click.option("--min-region", type=click.IntRange(min=1), help="Merge regions with fewer points.")
@click.option("--contiguous", is_flag=True, help="Merge all regions of a domain but its largest.")
@click.option(
    "--missing",
    type=click.Choice(["error", "marginalise"]),
    default="error",
    show_default=True,
    help="How to treat NaN in the features: as an error, or as a missing value, which the fit integrates out.",
)
@click.option("--starts", type=click.IntRange(min=1), default=16, show_default=True, help="Number of k-means++ starts.")
@click.option("--resume", is_flag=True, help="Continue an interrupted run from its finished starts.")
@click.option("--fast", is_flag=True, help="k-means on smoothed features, without a prior.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the starts.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("domains"),
    show_default=True,
    help="Folder for the results.",
)
def cluster(**given: Any) -> int:
    """Find the spatial domains of INPUT.

    \b
    .csv, .tsv, .parquet  a table of numbers; the columns that --coords and --ignore do not name are features, except
                     for the names of the rows: a first column without a name, or the index of a pandas table
    .h5ad            features --basis, positions obsm["spatial"] or the columns --coords of obs
    .npy             (N, D) with --shape, or an image (rows, columns, D)
    .npz             X (N, D), and coords or shape
    .nii, .nii.gz    a NIfTI volume; voxels that are 0 or NaN are ignored
    .png, .jpg, ...  an image

    Writes labels.npy, probabilities.npy, summary.json and, with Pillow, domains.png and uncertainty.png to the output
    folder, and labels.nii.gz for a NIfTI volume. Ctrl-C keeps the finished starts there. In the pictures y, or the
    first axis, points down; the legend has the number of points of each domain, and dark points are uncertain.

    \b
    warpwise cluster cells.csv --coords x,y --domains 7 --types 20 -o domains
    warpwise cluster --example layered --prior layers
    """
    wait_without_spinning()
    from warpwise.cli.cluster import cluster as run_cluster

    return run_cluster(**given)
