"""Pictures from other packages: a brain from nilearn's wheel, a photograph from scikit-image's."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from typing import NamedTuple

import numpy as np

_MNI = "datasets/data/mni_icbm152_{}_tal_nlin_sym_09a_converted.nii.gz"
_NIFTI_HEADER = 352  # bytes before the voxels of a .nii file


class Picture(NamedTuple):
    """``pixels`` (..., channels) or (...), ``mask`` of the points to cluster, and the known ``labels`` if any."""

    pixels: np.ndarray
    mask: np.ndarray | None = None
    labels: np.ndarray | None = None


def mni(first: int = 70, planes: int = 50, noise: float = 25.0, random_state: int = 0) -> Picture:
    """Axial planes of the MNI152 T1 template at 1 mm with Gaussian noise: 0.97 million voxels by default.

    ``labels`` are the most probable tissues by the template's maps: 0 grey matter, 1 white matter, 2 neither. Raises
    ``ImportError`` if nilearn, whose wheel contains the volumes, is not installed.
    """
    t1, grey, white = (_volume(_file("nilearn", _MNI.format(name))) for name in ("t1", "gm", "wm"))
    chosen = slice(first, first + planes)
    t1, grey, white = (volume[chosen].astype(np.float32) for volume in (t1, grey, white))
    other = 255 - grey - white
    pixels = t1 + np.random.default_rng(random_state).normal(0, noise, t1.shape).astype(np.float32)
    return Picture(pixels, t1 > 0, np.stack([grey, white, other]).argmax(0))


def astronaut() -> Picture:
    """The photograph "astronaut" (512, 512, 3) of scikit-image, reduced to (256, 256, 3). Raises ``ImportError`` if
    scikit-image, whose wheel contains it, or Pillow is not installed."""
    from PIL import Image

    with Image.open(_file("skimage", "data/astronaut.png")) as image:
        return Picture(np.asarray(image.convert("RGB").resize((256, 256)), dtype=np.float32))


def _file(package: str, name: str) -> Path:
    found = importlib.util.find_spec(package)
    for folder in (found and found.submodule_search_locations) or ():
        if (path := Path(folder, name)).exists():
            return path
    absent = f"{package} is not installed" if found is None else f"this version of {package} has no {name}"
    raise ImportError(f"{absent}, which contains this example: pip install warpwise[clustering-files]")


def _volume(path: Path) -> np.ndarray:
    """(planes, rows, columns) uint8 of a .nii.gz file of bytes, whose first axis is stored fastest."""
    data = gzip.decompress(path.read_bytes())
    sizes = np.frombuffer(data, "<i2", 3, 42)
    return np.frombuffer(data, np.uint8, int(np.prod(sizes)), _NIFTI_HEADER).reshape(sizes[::-1])
