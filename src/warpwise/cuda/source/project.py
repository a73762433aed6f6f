"""Where the project of a source keeps headers: the folders that its build files name, and the usual ones."""

from __future__ import annotations

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

    Those that a Makefile names by ``-I`` or a CMakeLists.txt by ``include_directories``, and the usual ones (include,
    common, ...), in ``folder`` and the folders above it, up to the root of a git checkout or two folders above.
    """
    above = [folder, *folder.parents][:_LEVELS]
    root = next((i for i, each in enumerate(above) if any((each / mark).exists() for mark in _ROOTS)), 2)
    for each in above[: root + 1]:
        for name, read in (("Makefile", _by_make), ("makefile", _by_make), ("CMakeLists.txt", _by_cmake)):
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
