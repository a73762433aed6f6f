"""A user's own operation to begin with: one file with a specification and three rungs, which passes as it is."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

FILE = Path(__file__).with_name("operation.py")
PLACEHOLDER = "NAME"


def operation(name: str) -> str:
    """The file of an operation called ``name``. Raises ``ValueError`` for what is no Python name."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r}: expected a Python name, such as softplus")
    return re.sub(rf"\b{PLACEHOLDER}\b", name, FILE.read_text())
