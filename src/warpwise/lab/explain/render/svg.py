"""A warp's request as SVG: 32 lanes, and below them the sectors or banks that each lane accesses."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from warpwise.lab.explain.render.format import LANE_COLOURS
from warpwise.lab.explain.render.lanes import LANES, SECTOR, WORD, MemoryRow, Request

CELL, HEIGHT, GAP, LABEL, NOTE = 20, 22, 14, 132, 90
GROUP = 8 * CELL + GAP
LEFT = LABEL + 8
WIDTH = LEFT + 4 * GROUP - GAP + NOTE
TOP, THREADS = 22, 56  # top of the row of lanes, and the height of the lines between lanes and memory
MOST_ROWS = 32


def element(tag: str, *content: str, **attributes: object) -> Markup:
    """One element; ``class_`` and ``stroke_width`` give ``class`` and ``stroke-width``. Plain text is escaped."""
    named = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _number(value))
        for name, value in attributes.items()
    )
    name, inner = Markup(tag), joined(content)
    return Markup("<{0}{1}>{2}</{0}>").format(name, named, inner) if inner else Markup("<{}{}/>").format(name, named)


def joined(parts: Iterable[str]) -> Markup:
    """``parts`` concatenated, plain text escaped."""
    return Markup("").join(parts)


def _number(value: object) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def label(x: float, y: float, content: str, **attributes: object) -> Markup:
    """A text element at (x, y)."""
    return element("text", content, x=x, y=y, **attributes)


def column(word: int) -> float:
    """The left edge of word or bank 0 to 31, in groups of eight."""
    return LEFT + word // 8 * GROUP + word % 8 * CELL


def request(one: Request, identity: str) -> Markup:
    """The picture of one request, with a title and a description for screen readers."""
    shown = one.rows[:MOST_ROWS]
    top = TOP + CELL + THREADS
    height = top + len(shown) * HEIGHT + (26 if len(one.rows) > len(shown) else 8)
    cost = f"{one.cost} {one.unit}{'s' if one.cost != 1 else ''}, at best {one.ideal}"
    title = f"{one.active} lanes, {one.bytes} bytes each: {cost}"
    where = "; ".join(f"lane {lane}: {place}" for lane, place in one.lanes)
    parts = [
        element("title", title, id=f"{identity}-t"),
        element("desc", f"{one.pattern}. {where}", id=f"{identity}-d"),
        _heads(one, top),
        *(_panels(one, row, top + number * HEIGHT) for number, row in enumerate(shown)),
        _threads(one, shown, top),
        _lanes(one),
        *(_cells(one, row, top + number * HEIGHT) for number, row in enumerate(shown)),
    ]
    if len(one.rows) > len(shown):
        rest = f"and {len(one.rows) - len(shown)} more"
        parts.append(label(LEFT, top + len(shown) * HEIGHT + 16, rest, class_="ww-faint"))
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        class_="ww-lanes",
        aria_labelledby=f"{identity}-t {identity}-d",
    )


def _lanes(one: Request) -> Markup:
    """The warp: a square per lane, hollow for inactive lanes."""
    places = dict(one.lanes)
    parts = [label(LABEL, TOP + 14, "lane", class_="ww-label", text_anchor="end")]
    for lane in range(LANES):
        on = lane in places
        box = element(
            "rect",
            x=column(lane) + 1,
            y=TOP,
            width=CELL - 2,
            height=CELL - 2,
            rx=4,
            **({"fill": LANE_COLOURS[lane]} if on else {"class_": "ww-off"}),
        )
        number = label(
            column(lane) + CELL / 2, TOP + 13, str(lane), class_="ww-lane" if on else "ww-faint", text_anchor="middle"
        )
        tip = element("title", f"lane {lane}: {places[lane]}" if on else f"lane {lane} is inactive")
        parts.append(element("g", tip, box, number))
    return joined(parts)


def _threads(one: Request, shown: tuple[MemoryRow, ...], top: float) -> Markup:
    """A curve from each lane to the first word that it accesses."""
    first: dict[int, tuple[int, int]] = {}
    for number, row in enumerate(shown):
        for word, cell in enumerate(row.cells):
            for lane in cell:
                first.setdefault(lane, (number, word))
    start = TOP + CELL - 1
    parts = []
    for lane, (number, word) in sorted(first.items(), key=lambda item: -item[1][0]):
        x, to, end = column(lane) + CELL / 2, column(word) + CELL / 2, top + number * HEIGHT + 2
        middle = start + THREADS * 0.62
        path = f"M{x:.0f} {start}C{x:.0f} {middle:.0f} {to:.0f} {top - THREADS * 0.45:.0f} {to:.0f} {end:.0f}"
        parts.append(element("path", d=path, stroke=LANE_COLOURS[lane]))
    return element("g", *parts, class_="ww-thread")


def _heads(one: Request, top: float) -> Markup:
    """The headings: sectors with their byte offsets, or bank numbers."""
    y = top - 6
    if one.kind == "shared":
        heads = [
            label(column(bank) + CELL / 2, y, str(bank), class_="ww-head", text_anchor="middle") for bank in range(32)
        ]
        return label(LABEL, y, "bank", class_="ww-label", text_anchor="end") + joined(heads)
    heads = [
        label(column(8 * sector) + 1, y, f"sector {sector}", class_="ww-head")
        + label(column(8 * sector) + 8 * CELL - 1, y, f"+{sector * SECTOR} B", class_="ww-faint", text_anchor="end")
        for sector in range(4)
    ]
    return label(LABEL, y, "128-byte line", class_="ww-label", text_anchor="end") + joined(heads)


def _panels(one: Request, row: MemoryRow, y: float) -> Markup:
    """The row's label, its sectors (fetched ones highlighted) or groups of banks, and the fraction in use."""
    parts = [label(LABEL, y + 15, row.label, class_="ww-label", text_anchor="end")]
    fetched = row.sectors if one.kind != "shared" else (False,) * 4
    for group in range(4):
        kind = "ww-fetched" if fetched[group] else "ww-bank" if one.kind == "shared" else "ww-untouched"
        parts.append(
            element("rect", x=column(8 * group) - 2, y=y, width=8 * CELL + 4, height=HEIGHT - 3, rx=5, class_=kind)
        )
    for word, cell in enumerate(row.cells):
        if not cell and fetched[word // 8]:
            parts.append(
                element("circle", cx=column(word) + CELL / 2, cy=y + HEIGHT / 2 - 1.5, r=1.6, class_="ww-unused")
            )
    if one.kind == "shared":
        note = f"{sum(1 for cell in row.cells if cell)} of 32"
    else:
        note = f"{WORD * sum(1 for cell in row.cells if cell)} of {SECTOR * sum(fetched)} B"
    parts.append(label(LEFT + 4 * GROUP - GAP + 8, y + 15, note, class_="ww-faint"))
    return joined(parts)


def _cells(one: Request, row: MemoryRow, y: float) -> Markup:
    return joined(_cell(one, row, word, cell, y) for word, cell in enumerate(row.cells) if cell)


def _cell(one: Request, row: MemoryRow, word: int, cell: tuple[int, ...], y: float) -> Markup:
    places = dict(one.lanes)
    who = ", ".join(f"lane {lane} ({places[lane]})" for lane in cell[:4]) + (
        f" and {len(cell) - 4} more" if len(cell) > 4 else ""
    )
    what = f"bank {word}" if one.kind == "shared" else f"{row.label} + {word * WORD} bytes"
    box = element(
        "rect", x=column(word) + 1, y=y + 1.5, width=CELL - 2, height=HEIGHT - 6, rx=3, fill=LANE_COLOURS[cell[0]]
    )
    number = label(column(word) + CELL / 2, y + 13.5, f"{cell[0]}", class_="ww-lane", text_anchor="middle")
    more = (
        element("circle", cx=column(word) + CELL - 3.5, cy=y + 4, r=2.2, class_="ww-more")
        if len(cell) > 1
        else Markup("")
    )
    return element("g", element("title", f"{what}: {who}"), box, number, more)
