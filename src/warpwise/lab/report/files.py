"""Write the pages, one per operation, and their index; each file is written atomically."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from warpwise.cache import atomic_write
from warpwise.lab.report.collected import Collected
from warpwise.lab.report.explained import Explained
from warpwise.lab.report.index import entry_of, index
from warpwise.lab.report.page import page

INDEX = "index.html"


def require_folder(folder: Path) -> None:
    """Create ``folder`` and check that it is writable. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder):
        pass


def file_name(name: str) -> str:
    """The file name of an operation's page, different from the index's."""
    plain = re.sub(r"[^\w.-]", "_", name)
    return f"{plain}_.html" if f"{plain}.html" == INDEX else f"{plain}.html"


def write(
    found: Sequence[Collected],
    folder: Path,
    explained: Mapping[str, Mapping[str, Explained]] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the pages of ``found`` and their index into ``folder``, and return them, the index first.

    ``explained`` holds each operation's explanations by rung. Raises ``OSError``, and ``MissingLibrary`` without
    vl-convert.
    """
    require_folder(folder)
    entries, paths = [], []
    for collected in found:
        if progress is not None:
            progress(collected.name)
        path = folder / file_name(collected.name)
        atomic_write(path, page(collected, (explained or {}).get(collected.name), INDEX))
        entries.append(entry_of(collected, path.name))
        paths.append(path)
    atomic_write(folder / INDEX, index(entries))
    return [folder / INDEX, *paths]
