"""A template of an operation: one file with a specification, a gradient and three rungs, which passes verification."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

FILE = Path(__file__).with_name("operation.py")
PLACEHOLDER = "NAME"


def operation(name: str) -> str:
    """The text of a file with an operation called ``name``.

    Raises ``ValueError`` unless ``name`` is a Python name of ASCII characters, as ``torch.library`` needs it.
    """
    if not name.isascii() or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r}: expected a Python name of ASCII characters, such as softplus")
    return re.sub(rf"\b{PLACEHOLDER}\b", name, FILE.read_text())
