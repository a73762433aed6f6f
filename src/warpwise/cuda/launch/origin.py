"""Where a CUDA source that is a string literal stands in a Python file."""

from __future__ import annotations

import contextlib
import functools
import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warpwise.cuda.errors import CompileError


@dataclass(frozen=True)
class Origin:
    """The call that loaded ``text``: it is at ``line`` of the Python file ``file``."""

    file: str
    line: int
    text: str

    @functools.cached_property
    def first(self) -> int:
        """The line of the Python file at which the text begins, or 0 if the file does not contain it as it stands.

        Of several, the one nearest to the call counts. A text with escape sequences, or put together from parts, is not
        found.
        """
        content = "".join(linecache.getlines(self.file))
        if not content or not self.text.strip():
            return 0
        starts = [content.count("\n", 0, match.start()) + 1 for match in re.finditer(re.escape(self.text), content)]
        return min(starts, key=lambda start: abs(start - self.line), default=0)

    def at(self, line: int) -> str:
        """``ops.py:40`` for a line of the text, or an empty string."""
        return f"{Path(self.file).name}:{self.first + line - 1}" if self.first and line > 0 else ""

    def annotated(self, message: str, file: str) -> str:
        """A compiler's message with the line of the Python file after each "kernel.cu:3" or "kernel.cu(3)"."""
        if not self.first:
            return message
        place = re.compile(rf"^{re.escape(file)}(?::(\d+)(?=:)|\((\d+)\)(?=:))", re.MULTILINE)
        return place.sub(lambda match: f"{match[0]} ({self.at(int(match[1] or match[2]))})", message)


@contextlib.contextmanager
def annotating(origin: Origin | None, file: str) -> Iterator[None]:
    """Add the lines of the Python file that holds the source to the message of a ``CompileError``."""
    try:
        yield
    except CompileError as error:
        if origin is None or not origin.first:
            raise
        raise type(error)(origin.annotated(str(error), file)) from None


def of_caller(text: str) -> Origin | None:
    """The origin of ``text``: the innermost call from outside this package's ``cuda`` folder; None without a file."""
    frame = sys._getframe(1)
    ours = str(Path(__file__).parents[1])
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return None if file.startswith("<") else Origin(file, frame.f_lineno, text)
