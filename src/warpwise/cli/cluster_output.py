"""What ``warpwise cluster`` writes: arrays, a NIfTI volume of labels, a summary and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpwise.cache import atomic_write, replacing
from warpwise.cli.cluster_input import Points

if TYPE_CHECKING:
    from PIL.Image import Image

FILES = ("labels.npy", "probabilities.npy", "labels.nii.gz", "summary.json", "domains.png", "uncertainty.png")
PICTURE_SIDE = 800  # pixels of the longer side
OUTSIDE = 255  # white, where a picture has no point
CERTAIN = 215  # grey of a point of uncertainty 0; 1 is black
# A picture shows the positions without a fraction TAIL on each side, and around them a margin of the fraction MARGIN of
# their extent. Points beyond it are drawn at the edge.
TAIL, MARGIN = 0.002, 0.05
LEGEND = 24  # pixels: the height of a legend, and the least width of an entry


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
        from PIL import Image
    except ImportError:
        return False
    places = points.places()
    if places.shape[1] == 3:
        if points.coords is not None:
            return False
        middle = places[:, 0] == np.median(places[:, 0]).astype(int)
        places, labels = places[middle, 1:], labels[middle]
        uncertainty = None if uncertainty is None else uncertainty[middle]
    pixel = places - places.min(0) if points.coords is None else _raster(places)
    canvas = np.full((*(pixel.max(0) + 1), 3), OUTSIDE, np.uint8)
    hue = np.arange(domains) * 256 // domains
    wheel = Image.fromarray(np.stack([hue, hue * 0 + 170, hue * 0 + 220], 1)[None].astype(np.uint8), "HSV")
    colours = np.asarray(wheel.convert("RGB"))[0]
    canvas[pixel[:, 0], pixel[:, 1]] = colours[labels]
    _save(canvas, output / "domains.png", {str(domain): tuple(colour) for domain, colour in enumerate(colours)})
    if uncertainty is not None:
        canvas[pixel[:, 0], pixel[:, 1]] = _grey(uncertainty)
        steps = {"uncertainty 0": 0.0, "0.25": 0.25, "0.5": 0.5, "1": 1.0}
        _save(canvas, output / "uncertainty.png", {text: (*_grey(step)[0],) * 3 for text, step in steps.items()})
    return True


def _raster(places: np.ndarray) -> np.ndarray:
    """The pixel of each position (N, 2). There are about as many pixels as points, so that most have one."""
    low, high = np.quantile(places, (TAIL, 1 - TAIL), axis=0)
    margin = MARGIN * (high - low).max()
    low, high = np.maximum(low - margin, places.min(0)), np.minimum(high + margin, places.max(0))
    extent = np.maximum(high - low, 1e-3 * max((high - low).max(), 1e-300))
    scale = min(np.sqrt(len(places) / extent.prod()), (PICTURE_SIDE - 1) / extent.max())
    return np.round((np.clip(places, low, high) - low) * scale).astype(int)


def _grey(uncertainty: Any) -> np.ndarray:
    return np.round(CERTAIN * (1 - np.atleast_1d(uncertainty)))[:, None]


def _save(canvas: np.ndarray, path: Path, legend: dict[str, tuple[int, ...]]) -> None:
    """Write ``canvas`` enlarged, with the ``legend`` below it: a text for each colour."""
    from PIL import Image

    scale = max(1, PICTURE_SIDE // max(canvas.shape[:2]))
    picture = Image.fromarray(canvas.repeat(scale, 0).repeat(scale, 1))
    below = _legend(legend, max(picture.width, 4 * LEGEND))
    whole = Image.new("RGB", (below.width, picture.height + below.height), (OUTSIDE,) * 3)
    whole.paste(picture)
    whole.paste(below, (0, picture.height))
    with replacing(path, ".png") as temporary:
        whole.save(temporary)


def _legend(entries: dict[str, tuple[int, ...]], width: int) -> Image:
    from PIL import Image, ImageDraw

    each = max(2 * LEGEND, 10 * max(map(len, entries)) + LEGEND)
    columns = max(1, width // each)
    made = Image.new("RGB", (width, LEGEND * -(-len(entries) // columns)), (OUTSIDE,) * 3)
    pen = ImageDraw.Draw(made)
    for number, (text, colour) in enumerate(entries.items()):
        left, top = each * (number % columns) + 4, LEGEND * (number // columns) + 6
        pen.rectangle((left, top, left + 12, top + 12), fill=tuple(map(int, colour)))
        pen.text((left + 18, top), text, fill=(0, 0, 0))
    return made
