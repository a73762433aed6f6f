"""What ``warpwise cluster`` reads: features and positions from a table, an array, an image or an example."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
EXAMPLES = ("layered", "potts", "composed")


@dataclass(frozen=True)
class Points:
    """Features ``X`` (N, D), and either the ``shape`` of the grid that they fill in row-major order or ``coords``."""

    X: np.ndarray
    coords: np.ndarray | None = None
    shape: tuple[int, ...] | None = None


def example(name: str, domains: int) -> Points:
    """Synthetic points of a generator of ``warpwise.apps.clustering.generators``."""
    from warpwise.apps.clustering import generators

    sample = getattr(generators, name)(n_domains=domains)
    return Points(sample.X, shape=sample.shape)


def read(path: Path, coords: str | None, shape: tuple[int, ...] | None) -> Points:
    """Read ``path`` by its suffix. Raises ``click.UsageError`` for another suffix or unsuitable contents."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".csv":
            found = _table(path, coords)
        elif suffix in IMAGES:
            found = _image(_pixels(path))
        elif suffix == ".npy":
            array = np.load(path, allow_pickle=False)
            found = Points(array) if array.ndim == 2 else _image(array)
        elif suffix == ".npz":
            found = _arrays(path)
        else:
            known = ", ".join((".csv", ".npy", ".npz", *IMAGES))
            raise click.UsageError(f"{path}: expected a file of one of {known}")
    except (ValueError, OSError) as error:
        raise click.UsageError(f"{path}: {error}") from error
    if coords is not None and suffix != ".csv":
        raise click.UsageError("--coords names columns of a .csv file")
    if shape is not None:
        found = Points(found.X, shape=shape)
    if found.coords is None and found.shape is None:
        raise click.UsageError(f"{path}: no positions; give --coords COLUMN,COLUMN (.csv) or --shape ROWS,COLUMNS")
    return found


def _table(path: Path, coords: str | None) -> Points:
    with path.open(newline="") as file:
        names = next(csv.reader(file), [])
    values = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    chosen = [] if coords is None else [name.strip() for name in coords.split(",")]
    for name in chosen:
        if name not in names:
            raise click.UsageError(f"{path}: no column {name!r}; its columns are {', '.join(names)}")
    places = [names.index(name) for name in chosen]
    features = [column for column in range(values.shape[1]) if column not in places]
    return Points(values[:, features], coords=values[:, places] if places else None)


def _arrays(path: Path) -> Points:
    with np.load(path, allow_pickle=False) as arrays:
        if "X" not in arrays:
            raise click.UsageError(f"{path}: expected an array X (N, D), and coords (N, 2 or 3) or shape")
        shape = tuple(int(size) for size in arrays["shape"]) if "shape" in arrays else None
        return Points(
            arrays["X"], coords=arrays["coords"] if "coords" in arrays and shape is None else None, shape=shape
        )


def _pixels(path: Path) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        raise click.UsageError("images need Pillow: pip install warpwise[report]") from error
    with Image.open(path) as image:
        return np.asarray(image if image.mode in ("L", "F", "I") else image.convert("RGB"), dtype=np.float32)


def _image(array: np.ndarray) -> Points:
    """An image (rows, columns) or (rows, columns, D), one point a pixel."""
    if array.ndim not in (2, 3):
        raise click.UsageError(f"expected (N, D), or an image (rows, columns, D), got {array.shape}")
    rows, columns = array.shape[:2]
    return Points(array.reshape(rows * columns, -1), shape=(rows, columns))
