"""Each row of a table in the documentation has as many cells as its header, and no text stands in its last line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for folder in ("docs", "src", "benchmarks")
    for path in (ROOT / folder).rglob("*.md")
    if ".venv" not in path.parts
) + sorted(ROOT.glob("*.md"))


def cells(line: str) -> int:
    """The number of cells of a row. ``\\|`` is a character of a cell, as is a bar in a code span."""
    text = re.sub(r"`[^`]*`", "", line.strip()).replace("\\|", "")
    return text.count("|") - 1 if text.endswith("|") else -1


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_rows_have_the_cells_of_their_header(page: Path) -> None:
    header, fenced = 0, False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if fenced or not line.startswith("|"):
            header = 0
            continue
        header = header or cells(line)
        assert cells(line) == header, f"{page.relative_to(ROOT)}:{number}: expected {header} cells: {line}"
