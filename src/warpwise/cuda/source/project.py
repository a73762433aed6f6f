"""Where the project of a source keeps headers: the folders that its build files name, and the usual ones."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

_FOLDERS = ("", "include", "inc", "common", "common/inc", "Common", "src", "csrc", "utils")
_ROOTS = (".git", ".hg")
_LEVELS = 6
_FLAG = re.compile(r"(?:^|\s)-I[ \t]*([^\s$()`'\"]+)")
_VARIABLE = re.compile(r"^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*[:?]?=[ \t]*([^\n#]*)", re.MULTILINE)
_CMAKE = re.compile(r"include_directories\s*\(([^)]*)\)")
_CMAKE_HERE = re.compile(r"\$\{(?:CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR|(?:CMAKE|PROJECT)_SOURCE_DIR)\}")


def header_folders(folder: Path) -> Iterator[Path]:
    """The folders where a source in ``folder`` may find its project's headers, nearest first.

    Those that a Makefile names by ``-I``, a CMakeLists.txt by ``include_directories`` or a setup.py by their paths, and
    the usual ones (include, common, ...), in ``folder`` and the folders above it, up to the root of a git checkout or
    two folders above.
    """
    above = [folder, *folder.parents][:_LEVELS]
    root = next((i for i, each in enumerate(above) if _is_root(each)), 2)
    for each in above[: root + 1]:
        for name, read in (
            ("Makefile", _by_make),
            ("makefile", _by_make),
            ("CMakeLists.txt", _by_cmake),
            ("setup.py", _by_setup),
        ):
            if (each / name).is_file():
                yield from (each / part for part in read((each / name).read_text(errors="replace")))
        yield from (each / part for part in _FOLDERS)


def _by_make(text: str) -> list[str]:
    """The folders after ``-I``, with the makefile's own variables replaced."""
    text = text.replace("\\\n", " ")
    values = dict(_VARIABLE.findall(text))
    for _ in range(4):
        text = re.sub(r"\$[({](\w+)[)}]", lambda match: values.get(match[1], match[0]).strip(), text)
    return _FLAG.findall(text)


def _by_cmake(text: str) -> list[str]:
    words = " ".join(_CMAKE.findall(text)).split()
    folders = (_CMAKE_HERE.sub(".", word).strip('"') for word in words)
    return [folder for folder in folders if "$" not in folder and not folder.isupper()]


def _by_setup(text: str) -> list[str]:
    """The quoted paths with more than one part."""
    return re.findall(r"""['"](\.?[\w-]*/[\w./-]+)['"]""", text)


def nearest_file(name: str, folder: Path) -> Path | None:
    """The file whose path ends in ``name`` in the git checkout that ``folder`` is in.

    Of several, the one that shares the most folders with ``folder``; None if that is not a single one.
    """
    root = next((each for each in [folder, *folder.parents] if _is_root(each)), None)
    if root is None or ".." in Path(name).parts:
        return None
    found: dict[int, list[Path]] = {}
    for path in _files(root).get(Path(name).name, ()):
        if path.as_posix().endswith(f"/{name}") and path.is_file():
            shared = os.path.commonpath((path, folder / "x"))
            found.setdefault(len(Path(shared).parts), []).append(path)
    nearest = found[max(found)] if found else []
    return nearest[0] if len(nearest) == 1 else None


def template_of(header: str, folder: Path) -> Path | None:
    """The file that a build makes ``header`` from, such as config.h.in, for a source in ``folder``; None for none."""
    plain = Path(header)
    inside = plain.with_name(f"{plain.stem}.in{plain.suffix}").as_posix()
    for name in (f"{header}.in", f"{header}.cmake", f"{header}.cmake.in", f"{header}.cmakein", inside):
        for each in (folder, *header_folders(folder)):
            if (each / name).is_file():
                return each / name
        if (nearest := nearest_file(name, folder)) is not None:
            return nearest
    return None


def _is_root(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in _ROOTS)


@functools.lru_cache(maxsize=4)
def _files(root: Path) -> dict[str, list[Path]]:
    """The first 100,000 files below ``root``, by name."""
    found: dict[str, list[Path]] = {}
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in names:
            found.setdefault(name, []).append(Path(folder) / name)
        count += len(names)
        if count > 100_000:
            break
    return found
