"""Tables and inline Markdown for the report's templates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup, escape

from warpwise.lab.html_templates import Templates

_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def inline(text: str) -> Markup:
    """A line of Markdown with code and bold; links become their text, since a page has no external links."""
    made = str(escape(_LINK.sub(r"\1", text)))
    return Markup(_BOLD.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", made)))


TEMPLATES = Templates("warpwise.lab.report", inline=inline)
render, resource = TEMPLATES.render, TEMPLATES.resource


@dataclass(frozen=True)
class Cell:
    """A table cell: a text with a link, a CSS class or a tooltip."""

    text: str
    href: str = ""
    css: str = ""
    title: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)


Content = str | Cell | tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table whose first column names the row; other columns are omitted if all their cells are empty."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Content]]
    caption: str = ""
    css: str = ""

    @cached_property
    def columns(self) -> list[int]:
        """The indices of the columns to show."""
        return [index for index in range(len(self.headings)) if not index or any(row[index] for row in self.rows)]
