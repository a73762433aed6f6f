"""What ``warpwise cluster`` reads: features and positions from a table, an array, an image, a volume or an example."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
TEXTS = {".csv": ",", ".tsv": "\t"}  # the character between two cells
TABLES = (*TEXTS, ".parquet", ".h5ad")
VOLUMES = (".nii", ".nii.gz")
SYNTHETIC = ("layered", "potts", "composed")
EXAMPLES = (*SYNTHETIC, "mni", "astronaut")
MISSING = ("", "NA")  # cells of missing values, as spreadsheets and R write them; float() takes nan and NaN
EXTRA = "pip install warpwise[clustering-files]"
BASIS = "X_pca"  # without --basis
TEXT = "utf-8-sig"  # of a table: UTF-8, also with the mark at its start that Excel writes


@dataclass(frozen=True)
class Points:
    """Features ``X`` (N, D), and either ``coords`` or the ``shape`` of the grid that they fill in row-major order: all
    of it, or the points where ``mask`` of that shape is true. ``affine`` is that of a NIfTI volume, and ``names`` are
    those of the columns of ``coords`` if it has any."""

    X: np.ndarray
    coords: np.ndarray | None = None
    shape: tuple[int, ...] | None = None
    mask: np.ndarray | None = None
    affine: np.ndarray | None = None
    names: tuple[str, ...] = ("x", "y")

    def structure(self) -> dict[str, Any]:
        """The arguments of ``fit`` that describe the neighbours."""
        from warpwise.apps.clustering import grid

        if self.mask is not None:
            import torch

            return {"graph": grid(self.mask.shape, "auto").subgraph(torch.from_numpy(self.mask.ravel()))}
        return {"coords": self.coords, "shape": self.shape}

    def places(self) -> np.ndarray:
        """(N, 2 or 3): positions for pictures; the first axis of a picture goes down."""
        if self.mask is not None:
            return np.argwhere(self.mask)
        if self.shape is not None:
            return np.indices(self.shape).reshape(len(self.shape), -1).T
        assert self.coords is not None
        return self.coords[:, ::-1]

    def axes(self) -> tuple[str, str]:
        """The names of the axes of a picture, down and to the right."""
        if self.coords is not None:
            return self.names[1], self.names[0]
        flat = len(self.shape or () if self.mask is None else self.mask.shape) == 2
        return ("row", "column") if flat else ("second axis", "third axis")


def example(name: str, domains: int) -> Points:
    """Synthetic points of ``warpwise.apps.clustering.generators``, or a picture that is installed with a package."""
    from warpwise.apps.clustering import examples, generators

    if name in SYNTHETIC:
        try:
            sample = getattr(generators, name)(n_domains=domains)
        except ValueError as error:
            raise click.UsageError(f"--domains: {error}") from error
        return Points(sample.X, shape=sample.shape)
    try:
        picture = examples.mni(first=85, planes=8) if name == "mni" else examples.astronaut()
    except ImportError as error:
        raise click.UsageError(str(error)) from error
    return _image(picture.pixels) if picture.mask is None else _masked(picture.pixels, picture.mask)


def read(
    path: Path,
    coords: str | None,
    shape: tuple[int, ...] | None,
    basis: str,
    ignore: str | None = None,
    marginalise: bool = False,
) -> Points:
    """Read ``path`` by its suffix, without the columns ``ignore`` of a table.

    Features of a table may be missing only with ``marginalise``. Raises ``click.UsageError`` for another suffix or
    unsuitable contents.
    """
    suffix = ".nii.gz" if path.name.lower().endswith(".nii.gz") else path.suffix.lower()
    if coords is not None and (len(set(axes := _names(coords))) != len(axes) or len(axes) not in (2, 3)):
        raise click.UsageError(f"--coords: expected two or three different columns, such as x,y, got {coords!r}")
    if both := set(_names(coords or "")) & set(_names(ignore or "")) - {""}:
        raise click.UsageError(f"--coords and --ignore: expected different columns, got {min(both)!r} in both")
    try:
        if suffix in TEXTS:
            found = _table(path, coords, ignore, TEXTS[suffix], marginalise)
        elif suffix == ".parquet":
            found = _parquet(path, coords, ignore, marginalise)
        elif suffix == ".h5ad":
            found = _annotated(path, coords, basis)
        elif suffix in VOLUMES:
            found = _volume(path)
        elif suffix in IMAGES:
            found = _image(_pixels(path))
        elif suffix == ".npy":
            array = _loaded(path)
            found = Points(array) if array.ndim == 2 else _image(array)
        elif suffix == ".npz":
            found = _arrays(path)
        else:
            known = ", ".join((*TABLES, ".npy", ".npz", *VOLUMES, *IMAGES))
            raise click.UsageError(f"{path}: expected a file of one of {known}")
    except ImportError as error:
        raise click.UsageError(f"{path}: {error}; {EXTRA}") from error
    except UnicodeDecodeError as error:
        byte = f"the byte 0x{error.object[error.start]:02x}"
        raise click.UsageError(f"{path}: expected text in UTF-8, got {byte}; save the table as UTF-8") from error
    except (ValueError, OSError, csv.Error) as error:
        raise click.UsageError(f"{path}: {error}") from error
    if coords is not None and suffix not in TABLES:
        raise click.UsageError("--coords names columns of a .csv, .tsv, .parquet or .h5ad file")
    if ignore is not None and suffix not in (*TEXTS, ".parquet"):
        raise click.UsageError("--ignore names columns of a .csv, .tsv or .parquet file")
    if basis != BASIS and suffix != ".h5ad":
        raise click.UsageError("--basis names features of a .h5ad file")
    if shape is not None:
        if found.coords is not None or found.shape is not None or found.mask is not None:
            raise click.UsageError(f"{path}: --shape is for features without positions; here they come from INPUT")
        found = Points(found.X, shape=shape)
    if found.coords is None and found.shape is None and found.mask is None:
        raise click.UsageError(f"{path}: no positions; give --coords COLUMN,COLUMN (a table) or --shape ROWS,COLUMNS")
    return found


def _names(columns: str) -> list[str]:
    return [name.strip() for name in columns.split(",")]


def _chosen(path: Path, coords: str | None, names: list[str]) -> list[str]:
    """The names in ``coords``, all of which must be among ``names``."""
    chosen = [] if coords is None else _names(coords)
    for name in chosen:
        if name not in names:
            raise click.UsageError(f"{path}: no column {name!r}; its columns are {', '.join(filter(None, names))}")
    return chosen


def _table(path: Path, coords: str | None, ignore: str | None, delimiter: str, marginalise: bool) -> Points:
    with path.open(newline="", encoding=TEXT) as file:
        header = file.readline()
        if delimiter == "," and "," not in header and ";" in header:
            delimiter = ";"  # as spreadsheets write where the comma is the decimal sign
        file.seek(0)
        names = [name.strip() for name in next(csv.reader(file, delimiter=delimiter), [])]
    if not any(names):
        got = "a first line without names" if header else "an empty file"
        raise ValueError(f"expected a row of column names and a row of numbers for each point, got {got}")
    chosen, left_out = _chosen(path, coords, names), _chosen(path, ignore, names)
    # A first column without a name has the names or the numbers of the rows, as pandas and R write them.
    kept = [column for column, name in enumerate(names) if name not in left_out and (column or name)]
    values = _numbers(path, names, kept, delimiter)
    if not values.size:
        raise click.UsageError(
            f"{path}: expected a row of column names and a row of numbers for each point, got no row"
        )
    places = [kept.index(names.index(name)) for name in chosen]
    features = [column for column in range(len(kept)) if column not in places]
    if gap := _missing(values, [names[column] for column in kept], chosen, marginalise):
        with path.open(newline="", encoding=TEXT) as file:
            lines = csv.reader(file, delimiter=delimiter)
            number = next(itertools.islice((lines.line_num for cells in lines if cells), gap[0] + 1, None))
        raise ValueError(f"line {number}, {gap[1]}")
    return _of_table(path, values[:, features], values[:, places], chosen)


def _missing(values: np.ndarray, names: list[str], chosen: list[str], marginalise: bool) -> tuple[int, str] | None:
    """The first row that has a missing value where none may be, and what is wrong in it. ``names`` are those of the
    columns of ``values``; the columns ``chosen`` are positions."""
    gaps = np.isnan(values)
    if marginalise:
        gaps[:, [name not in chosen for name in names]] = False
    rows = gaps.any(1)
    if not rows.any():
        return None
    row = int(rows.argmax())
    name = names[int(gaps[row].argmax())]
    found = f"column {name!r}: the value is missing, as in {rows.sum():,} of {len(values):,} rows"
    if name in chosen:
        return row, f"{found}; a point needs a position: leave the row out"
    return row, f"{found}; --missing marginalise takes missing values, and --ignore {name} leaves the column out"


def _of_table(path: Path, features: np.ndarray, places: np.ndarray, chosen: list[str]) -> Points:
    if not features.shape[1]:
        raise click.UsageError(f"{path}: expected columns of features, got only those of --coords and --ignore")
    return Points(features, coords=places, names=tuple(chosen)) if chosen else Points(features)


def _numbers(path: Path, names: list[str], kept: list[int], delimiter: str) -> np.ndarray:
    """The columns ``kept`` of the rows below the header; an empty cell or NA is NaN. Raises ``ValueError`` with the
    line and the column."""
    if len(kept) == len(names):
        with warnings.catch_warnings(), contextlib.suppress(ValueError):
            warnings.simplefilter("ignore", UserWarning)  # of no data
            # A table without empty cells. "0#9" is an error, because # begins no comment.
            values = np.loadtxt(path, comments=None, delimiter=delimiter, skiprows=1, ndmin=2, encoding=TEXT)
            if values.shape[1] == len(names) or not values.size:
                return values
    with path.open(newline="", encoding=TEXT) as file:
        lines = csv.reader(file, delimiter=delimiter)
        next(lines, None)
        decimal = "," if delimiter == ";" else "."
        rows = [_row(cells, names, kept, lines.line_num, decimal) for cells in lines if cells]
    return np.array(rows)


def _row(cells: list[str], names: list[str], kept: list[int], line: int, decimal: str) -> list[float]:
    if len(cells) != len(names):
        raise ValueError(f"line {line}: expected {len(names)} cells, as in the header, got {len(cells)}")
    found = []
    for column in kept:
        cell, name = cells[column], names[column]
        try:
            found.append(np.nan if cell.strip() in MISSING else float(cell.replace(decimal, ".")))
        except ValueError:
            left_out = f"; --ignore {name} leaves the column out"
            raise ValueError(f"line {line}, column {name!r}: expected a number, got {cell!r}{left_out}") from None
    return found


def _parquet(path: Path, coords: str | None, ignore: str | None, marginalise: bool) -> Points:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    names = [name for name in table.column_names if name not in _row_names(table)]
    chosen, left_out = _chosen(path, coords, table.column_names), _chosen(path, ignore, table.column_names)

    def column(name: str) -> np.ndarray:
        try:
            return table[name].to_numpy().astype(np.float64)
        except (TypeError, ValueError) as error:
            hint = f"; --ignore {name} leaves the column out"
            raise ValueError(f"column {name!r}: expected numbers, got {table[name].type}{hint}") from error

    kept = [name for name in names if name not in chosen and name not in left_out]
    columns, places = [column(name) for name in kept], [column(name) for name in chosen]
    features, positions = (np.stack(some, 1) if some else np.empty((0, 0)) for some in (columns, places))
    if (columns or places) and (gap := _missing(np.stack(columns + places, 1), kept + chosen, chosen, marginalise)):
        raise ValueError(f"row {gap[0] + 1}, {gap[1]}")
    return _of_table(path, features, positions, chosen)


def _row_names(table: Any) -> list[str]:
    """The columns that pandas wrote as the names of the rows."""
    stored = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    return [name for name in stored.get("index_columns", ()) if isinstance(name, str)]


def _annotated(path: Path, coords: str | None, basis: str) -> Points:
    """obsm[basis], or X where ``basis`` is "X"; positions obsm["spatial"] or the columns ``coords`` of obs."""
    import anndata

    adata = anndata.read_h5ad(path)
    if basis != "X" and basis not in adata.obsm:
        raise click.UsageError(f"{path}: no obsm {basis!r}; give --basis {' or '.join(['X', *adata.obsm])}")
    X = adata.X if basis == "X" else adata.obsm[basis]
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    chosen = _chosen(path, coords, list(adata.obs.columns))
    if chosen:
        for name in chosen:
            if adata.obs[name].dtype.kind not in "iuf":
                raise ValueError(f"--coords: expected numbers in the column {name!r}, got {adata.obs[name].dtype}")
        return Points(X, coords=adata.obs[chosen].to_numpy(np.float64), names=tuple(chosen))
    if "spatial" not in adata.obsm:
        raise click.UsageError(f"{path}: no obsm 'spatial'; give --coords with two columns of obs")
    return Points(X, coords=np.asarray(adata.obsm["spatial"], dtype=np.float64))


def _volume(path: Path) -> Points:
    """A NIfTI volume (i, j, k) or (i, j, k, channels); voxels that are 0 or NaN in every channel are left out."""
    import nibabel

    try:
        image = nibabel.load(path)
    except nibabel.filebasedimages.ImageFileError as error:
        raise ValueError(str(error)) from error
    array = np.asarray(image.dataobj, dtype=np.float32)
    if array.ndim not in (3, 4):
        raise ValueError(f"expected three axes, or one more for channels, got {array.shape}")
    inside = (array != 0) & ~np.isnan(array)
    inside = inside if array.ndim == 3 else inside.any(3)
    if not inside.any():
        raise ValueError("all voxels are 0 or NaN")
    return _masked(array, inside, image.affine)


def _masked(array: np.ndarray, mask: np.ndarray, affine: np.ndarray | None = None) -> Points:
    return Points(array[mask].reshape(int(mask.sum()), -1), mask=mask, affine=affine)


def _loaded(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:  # NumPy's message is about pickle, also if the file is of another kind
        raise ValueError("expected numbers in a file of numpy.save or numpy.savez; the contents are others") from error


def _arrays(path: Path) -> Points:
    with _loaded(path) as arrays:
        if "X" not in arrays:
            raise click.UsageError(f"{path}: expected an array X (N, D), and coords (N, 2 or 3) or shape")
        X = arrays["X"]
        if X.ndim != 2:
            raise ValueError(f"expected X to be (N, D), N points of D features, got {X.shape}")
        if "shape" not in arrays:
            return Points(X, coords=arrays.get("coords"))
        sizes = arrays["shape"]
        if sizes.ndim != 1 or not np.issubdtype(sizes.dtype, np.integer):
            raise ValueError(f"expected shape to be two or three integers, got {sizes!r}")
        if "coords" in arrays:
            raise ValueError("expected either coords or shape, got both")
        return Points(X, shape=tuple(map(int, sizes)))


def _pixels(path: Path) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        raise click.UsageError("images need Pillow: pip install warpwise[report]") from error
    with Image.open(path) as image:
        grey = image.mode in ("L", "F", "I") or image.mode.startswith("I;16")
        return np.asarray(image if grey else image.convert("RGB"), dtype=np.float32)


def _image(array: np.ndarray) -> Points:
    """An image (rows, columns) or (rows, columns, D), one point a pixel."""
    if array.ndim not in (2, 3):
        raise click.UsageError(f"expected (N, D), or an image (rows, columns, D), got {array.shape}")
    rows, columns = array.shape[:2]
    return Points(array.reshape(rows * columns, -1), shape=(rows, columns))
