"""What ``warpwise cluster`` writes: arrays, a NIfTI volume of labels, a summary and pictures."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from warpwise.cache import atomic_write, replacing
from warpwise.cli.cluster_input import Points

FILES = ("labels.npy", "probabilities.npy", "labels.nii.gz", "summary.json", "domains.png", "uncertainty.png")


@contextlib.contextmanager
def folder(output: Path, *others: str) -> Iterator[None]:
    """Create the folder ``output`` for ``FILES`` and ``others``. If the block raises, the folders that were created and
    are empty are removed.

    Raises ``click.UsageError`` if no files can be written there, or if a folder has the name of one of the files.
    """
    created = []
    try:
        try:
            created = [one for one in (output, *output.parents) if not one.exists()]
            output.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=output):
                pass
        except OSError as error:
            raise click.UsageError(f"--output: cannot write files to the folder {output}: {error.strerror}") from error
        for name in (*FILES, *others):
            if (output / name).is_dir():
                raise click.UsageError(
                    f"--output: expected no folder {output / name}, because the command writes a file of this name; "
                    "remove it, or give another output folder"
                )
        yield
    except BaseException:
        for one in created:
            with contextlib.suppress(OSError):  # of a folder that has files, or was not created
                one.rmdir()
        raise


def write(output: Path, points: Points, model: Any, domains: int, summary: dict[str, Any]) -> bool:
    """Write the results to the folder ``output``, each file whole or not at all, and remove those of an earlier run.

    Returns False if pictures were not possible.
    """
    output.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (output / name).unlink(missing_ok=True)
    labels = model.labels_
    _save_array(output / "labels.npy", labels)
    uncertainty = getattr(model, "uncertainty_", None)
    if uncertainty is not None:
        _save_array(output / "probabilities.npy", model.probabilities_)
    if points.mask is not None and points.affine is not None:
        import nibabel

        volume = np.zeros(points.mask.shape, np.int16)
        volume[points.mask] = labels + 1
        with replacing(output / "labels.nii.gz", ".nii.gz") as temporary:
            nibabel.save(nibabel.Nifti1Image(volume, points.affine), temporary)
    drawn = _pictures(output, points, labels, domains, uncertainty)
    atomic_write(output / "summary.json", json.dumps(summary, indent=1) + "\n")
    return drawn


def _save_array(path: Path, array: np.ndarray) -> None:
    with replacing(path, ".npy") as temporary:
        np.save(temporary, array)


def _pictures(output: Path, points: Points, labels: np.ndarray, domains: int, uncertainty: np.ndarray | None) -> bool:
    """Write domains.png and uncertainty.png, of a volume the middle of its first axis that has points."""
    try:
        from warpwise.cli import cluster_picture as draw
    except ImportError:
        return False
    places, plane = points.places(), ""
    axes = points.axes()
    sizes = np.bincount(labels, minlength=domains)
    if places.shape[1] == 3:
        if points.coords is not None:
            return False
        middle = int(np.sort(places[:, 0])[len(places) // 2])
        chosen = places[:, 0] == middle
        places, labels, plane = places[chosen, 1:], labels[chosen], f", plane {middle} of the first axis"
        uncertainty = None if uncertainty is None else uncertainty[chosen]
    area = (draw.area_of_grid if points.coords is None else draw.area_of_points)(places, axes)
    colours = draw.palette(domains)
    title = f"Domains of {len(points.X):,} points{plane}"
    legend = [(f"{k}: {size:,}", colour) for k, (size, colour) in enumerate(zip(sizes, colours, strict=True))]
    draw.save(output / "domains.png", area, colours[labels], title, "domain: points", legend)
    if uncertainty is not None:
        steps = [(text, draw.grey(float(text))[0]) for text in ("0", "0.25", "0.5", "0.75", "1")]
        title = f"Uncertainty of the domains of {len(points.X):,} points{plane}"
        draw.save(output / "uncertainty.png", area, draw.grey(uncertainty), title, "uncertainty", steps)
    return True
