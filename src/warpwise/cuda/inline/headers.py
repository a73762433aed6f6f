"""Copies of the headers of a project, whose kernels, launches and device functions become host code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warpwise.cuda.inline import source

_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(<[^>\n]+>|"[^"\n]+")', re.MULTILINE)
_CUDA = re.compile(r"__global__|__device__|__noinline__|__constant__|__managed__|<<\s*<")

Other = Callable[[str, str, int, str], str | None]


def _as_written(name: str, text: str, position: int, file: str) -> str | None:
    return None


def _unchanged(text: str) -> str:
    return text


@dataclass
class HeaderCopies:
    """The host code of a source and of the headers that it includes, found beside the including file or in ``folders``.

    ``scratch`` is the folder into which ``write`` writes the copies, and ``functors`` is that of ``source.host_code``.
    ``other`` is called for each header that is not found, with its name, the text and the position of its ``#include``
    and the file; it returns the header to include instead, as ``<name>``, or None. ``translate`` is called with the
    host code of each header that contains CUDA code.
    """

    folders: Sequence[Path]
    scratch: Path
    functors: bool = False
    other: Other = _as_written
    translate: Callable[[str], str] = _unchanged
    texts: dict[str, str] = field(default_factory=dict)
    _names: dict[Path, str] = field(default_factory=dict)

    def host_code(self, text: str, file: str, beside: Iterable[Path] = (), table: str = "ww_symbols") -> str:
        """The host code of ``text``, which includes the copies. ``table`` is that of ``source.host_code``."""
        where = (*beside, *self.folders)
        if _CUDA.search(text):
            text = source.host_code(text, file, table, functors=self.functors)

        def line(match: re.Match[str]) -> str:
            name = match[2].strip('<>"')
            found = next((folder / name for folder in where if (folder / name).is_file()), None)
            if found is not None:
                return f'{match[1]}"{self.scratch / self._copy(found.resolve())}"'
            other = self.other(name, text, match.start(), file)
            return f"{match[1]}{other}" if other else match[0]

        return _INCLUDE.sub(line, text)

    def _copy(self, header: Path) -> str:
        """The file name of the copy of ``header``."""
        if header not in self._names:
            name = self._names[header] = f"{len(self._names)}_{header.name}"
            table = f"ww_symbols_{len(self._names)}"
            text = header.read_text("utf-8-sig", "replace")
            code = self.host_code(text, str(header), (header.parent,), table)
            self.texts[name] = f'#line 1 "{header}"\n{self.translate(code) if _CUDA.search(text) else code}\n'
        return self._names[header]

    def write(self) -> None:
        """Write the copies, with the includes of each other."""
        self.scratch.mkdir(exist_ok=True)
        for name, text in self.texts.items():
            (self.scratch / name).write_text(text)
