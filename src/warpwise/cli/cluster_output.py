"""What ``warpwise cluster`` writes: arrays, a NIfTI volume of labels, a summary and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from warpwise.cli.cluster_input import Points

PICTURE_SIDE = 800  # pixels of the longer side
OUTSIDE = 255  # white, where a picture has no point


def write(output: Path, points: Points, model: Any, domains: int, summary: dict[str, Any]) -> bool:
    """Write the results to the folder ``output``. Returns False if pictures were not possible."""
    output.mkdir(parents=True, exist_ok=True)
    labels = model.labels_
    np.save(output / "labels.npy", labels)
    uncertainty = getattr(model, "uncertainty_", None)
    if uncertainty is not None:
        np.save(output / "probabilities.npy", model.probabilities_)
    if points.mask is not None and points.affine is not None:
        import nibabel

        volume = np.zeros(points.mask.shape, np.int16)
        volume[points.mask] = labels + 1
        nibabel.save(nibabel.Nifti1Image(volume, points.affine), output / "labels.nii.gz")
    (output / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    return _pictures(output, points, labels, domains, uncertainty)


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
    low, extent = places.min(0), np.ptp(places, axis=0)
    if points.coords is None:
        pixel = places - low
    else:
        # With about as many pixels as points most pixels have a point.
        side = min(PICTURE_SIDE, max(1, int(np.sqrt(len(places)))))
        pixel = np.round((places - low) / max(extent.max(), 1e-300) * (side - 1)).astype(int)
    canvas = np.full((*(pixel.max(0) + 1), 3), OUTSIDE, np.uint8)
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
