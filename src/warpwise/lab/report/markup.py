"""HTML from Python: elements whose text is escaped, and the little Markdown that an operation's README uses in a paragraph."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files

_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


class Markup(str):
    """Text that is HTML already."""


def element(tag: str, *content: str, **attributes: object) -> Markup:
    """``<tag …>content</tag>``. Plain text is escaped; ``class_`` gives ``class``, ``data_x`` ``data-x``.

    An attribute that is None or False is left out, one that is True stands alone.
    """
    named = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    inner = "".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in content)
    return Markup(f"<{tag}{named}>{inner}</{tag}>")


def joined(*parts: str, by: str = "") -> Markup:
    """``parts`` one after another, those that are plain text escaped; empty ones are left out."""
    made = [part if isinstance(part, Markup) else escape(part, quote=False) for part in parts if part]
    return Markup(by.join(made))


def inline(text: str) -> Markup:
    """A line of Markdown: code, bold, and links as their text alone, since a page leads nowhere outside itself."""
    made = escape(_LINK.sub(r"\1", text), quote=False)
    return Markup(_BOLD.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", made)))


def table(headings: list[str], rows: list[list[str]], caption: str = "", kind: str = "") -> Markup:
    """A table whose first column names the row and whose other columns are figures; columns without any are left out."""
    used = [number for number in range(len(headings)) if not number or any(row[number] for row in rows)]
    headings, rows = [headings[number] for number in used], [[row[number] for number in used] for row in rows]
    head = joined(*(element("th", heading, scope="col") for heading in headings))
    body = joined(*(
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ))  # fmt: skip
    titled = element("caption", caption) if caption else Markup("")
    made = element("table", titled, element("thead", element("tr", head)), element("tbody", body), class_=kind or None)
    return element("div", made, class_="scroll", tabindex="0")


def folded(summary: str, *content: str, **attributes: object) -> Markup:
    """Something to open."""
    return element("details", element("summary", summary), *content, **attributes)


def document(title: str, *body: str) -> str:
    """A whole page that needs nothing else: style and script are in it."""
    style = Markup(resource("page.css"))
    script = Markup(resource("page.js"))
    head = joined(
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'),
        element("title", title), element("style", style),
    )  # fmt: skip
    page = element("html", element("head", head), element("body", *body, element("script", script)), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def resource(name: str) -> str:
    """The text of a file beside this one."""
    return (files("warpwise.lab.report") / name).read_text("utf-8")
