"""Links between the Markdown files of the repository, without a network."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "docs", "examples", "src", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"`[^`\n]+`(?!\]\()|!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<to>[^)\s]+)\)")


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    found = set()
    for line in _CODE.sub("", page.read_text()).splitlines():
        if heading := re.match(r"#+\s+(.*)", line):
            text = unicodedata.normalize("NFKD", re.sub(r"[`*]|\]\([^)]*\)", "", heading[1])).lower()
            found.add(re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip()))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for match in _LINK.finditer(_CODE.sub("", page.read_text())):
        to = match["to"]
        if not to or "://" in to or to.startswith("mailto:"):
            continue
        path, _, anchor = to.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            broken.append(f"{to}: there is no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            broken.append(f"{to}: no such heading; there are {', '.join(sorted(anchors(target)))}")
    assert not broken, "\n".join(broken)


def test_each_page_is_in_the_navigation() -> None:
    shown = (ROOT / "mkdocs.yml").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        assert f": {page.relative_to(ROOT / 'docs')}\n" in shown, f"mkdocs.yml does not list {page}"
