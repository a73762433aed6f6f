"""Write the pages, one per operation, and their index; each file is written atomically."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    explained: Iterable[tuple[str, Mapping[str, Explained]]] | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the pages of ``found`` and their index into ``folder``, and return them, the index first.

    ``explained`` yields each operation's name and explanations by rung; an operation's page is written when they come.
    Raises ``OSError``, and ``MissingLibrary`` without vl-convert.
    """
    require_folder(folder)
    known = {collected.name: collected for collected in found}
    paths = {name: folder / file_name(name) for name in known}
    for name, rungs in explained if explained is not None else ((name, {}) for name in known):
        if progress is not None:
            progress(name)
        atomic_write(paths[name], page(known[name], rungs, INDEX))
    atomic_write(folder / INDEX, index([entry_of(one, paths[one.name].name) for one in found]))
    return [folder / INDEX, *paths.values()]
