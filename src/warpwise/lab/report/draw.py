"""Draw Vega-Lite specifications as SVG when a page is built, so that a page needs no plotting library.

Colours are CSS variables, for light and dark pages. The ``description`` of a mark is its label,
for screen readers and for the page's script, which shows it as a tooltip.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from html import escape
from typing import Any

from warpwise import cache

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
FORMAT = 4
CONFIG: dict[str, Any] = {
    "font": "inherit",
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--soft)", "titleColor": "var(--soft)", "domainColor": "var(--line)",
        "tickColor": "var(--line)", "gridColor": "var(--line)", "labelFontSize": 11, "titleFontSize": 11,
        "titleFontWeight": "normal", "titlePadding": 6, "labelLimit": 400, "grid": False,
    },
    "text": {"color": "var(--ink)", "fontSize": 11.5},
    "legend": {"disable": True},
}  # fmt: skip

_HIDDEN = re.compile(
    r'<path class="(?:background|foreground)" aria-hidden="true"[^>]*/>'
    r'|<g class="mark-rule[^"]*" pointer-events="none"/>'
)
_EMPTY = re.compile(r"<g(?: [^<>]*)?></g>|<g(?: [^<>]*)?/>")
_PLACES = re.compile(r' (?:d|transform|x|y|x2|y2|width|height)="[^"]*"')
_FRACTION = re.compile(r"(\.\d)\d+")
_LINK = re.compile(r'xlink:href="[^"#]*#')
_HEAD = re.compile(r'^<svg [^>]*viewBox="(?P<box>[^"]+)"[^>]*>')
_NOISE = re.compile(
    r' (?:opacity="1"|stroke-miterlimit="10"|font-family="inherit"|pointer-events="none"|class="[^"]*"'
    r'|role="graphics-object"|aria-roledescription="[^"]* container")'
)


class MissingLibrary(ImportError):
    """vl-convert-python is not installed; the message gives the pip command."""


def require_library() -> None:
    """Raise ``MissingLibrary`` unless vl-convert-python can be imported."""
    try:
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise MissingLibrary(
            f"charts are drawn by vl-convert-python, which cannot be imported ({error}): pip install 'warpwise[report]'"
        ) from error


def svg(specification: dict[str, Any], label: str, name: str = "") -> str:
    """The chart as an SVG element of class ``name`` that scales with its container. Raises ``MissingLibrary``."""
    require_library()
    import vl_convert

    text = json.dumps({"$schema": SCHEMA, "config": CONFIG, "padding": 1, **specification}, sort_keys=True)
    path = (
        cache.cache_dir() / "charts" / f"{cache.key(FORMAT, importlib.metadata.version('vl-convert-python'), text)}.bin"
    )
    kept = cache.load(path)
    if kept is None:
        kept = tidy(vl_convert.vegalite_to_svg(text)).encode()
        cache.save(path, kept)
    return kept.decode().replace(
        "<svg ", f'<svg class="{escape(f"chart {name}".strip())}" aria-label="{escape(label)}" ', 1
    )


def tidy(drawn: str) -> str:
    """Shorten an SVG: remove empty groups and digits beyond tenths of pixels, and make links relative to the page."""
    head = _HEAD.match(drawn)
    if head is None:
        raise ValueError(f"expected an SVG document with a viewBox, got {drawn[:80]!r}")
    body = _LINK.sub('href="#', _NOISE.sub("", _HIDDEN.sub("", drawn[head.end() :])))
    before = ""
    while before != body:
        before, body = body, _EMPTY.sub("", body)
    body = _PLACES.sub(lambda found: _FRACTION.sub(r"\1", found[0]), body)
    width = float(head["box"].split()[2])
    return f'<svg role="graphics-document" viewBox="{head["box"]}" style="--w:{width:.0f}">{body}'
