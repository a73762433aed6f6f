"""The index: every operation's best rung relative to its ceiling and its best opponent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from warpwise.lab.report import format as fmt
from warpwise.lab.report.charts import (
    LETTER,
    NARROW,
    NARROW_ROW,
    ROW,
    WIDE,
    Spec,
    _fixed,
    _narrow_columns,
    _text,
    _title,
)
from warpwise.lab.report.collected import Collected, MeasuredPoint
from warpwise.lab.report.draw import svg
from warpwise.lab.report.format import MARKS
from warpwise.lab.report.html import Cell, Content, Table, render
from warpwise.lab.report.page import shown_first


@dataclass(frozen=True)
class IndexEntry:
    """One operation of the index: the point that its page shows first, and the page's file name."""

    collected: Collected
    point: MeasuredPoint | None
    file: str

    @property
    def times(self) -> tuple[float, float | None] | None:
        """Seconds of the best rung and of the best opponent, or None where no rung was timed."""
        if self.point is None or self.point.best is None or not self.point.best.median:
            return None
        return self.point.best.median, self.point.rival.median if self.point.rival else None

    @property
    def against(self) -> str:
        """``2.32 × torch.compile``."""
        if self.point is None or self.point.rival is None or self.times is None or not self.times[1]:
            return ""
        return f"{fmt.against(self.point)} {self.point.rival.name}"


def entry_of(collected: Collected, file: str) -> IndexEntry:
    """The operation with the point that its page shows first."""
    return IndexEntry(collected, shown_first(collected), file)


def index(entries: Sequence[IndexEntry]) -> str:
    """The whole document."""
    timed = [entry for entry in entries if entry.point is not None and entry.point.best is not None]
    devices = ", ".join(dict.fromkeys(entry.collected.device for entry in timed))
    rows = [_row(entry) for entry in timed if entry.point and entry.point.best and entry.point.best.percent]
    drawn = [Markup(_chart(rows)), Markup(_chart(rows, narrow=True))] if rows else []
    return str(
        render(
            "index.html",
            title="Ladders",
            summary=_summary(entries, timed),
            devices=devices,
            charts=drawn,
            listed=_table(entries),
        )
    )


def _summary(entries: Sequence[IndexEntry], timed: Sequence[IndexEntry]) -> str:
    raced = [entry.times for entry in timed if entry.times and entry.times[1]]
    wins = sum(1 for ours, theirs in raced if theirs and ours <= theirs)
    rungs = sum(len(entry.collected.rungs) for entry in entries)
    text = f"{len(entries)} operation{'s' * (len(entries) != 1)}, {rungs} rungs."
    if raced:
        text += f" In {wins} of {len(raced)} the best rung is as fast as the best opponent or faster."
    wrong = [
        f"{entry.collected.name} {name}"
        for entry in entries
        for name in entry.collected.rungs
        if entry.collected.status(name) == "wrong"
    ]
    return text + (f" Wrong: {', '.join(wrong)}." if wrong else "")


def _row(entry: IndexEntry) -> dict[str, Any]:
    point = entry.point
    if point is None or point.best is None:
        raise ValueError(f"{entry.collected.name}: expected a point with a rung that was timed")
    best, rival = point.best, point.rival
    theirs = f"; {fmt.sentence(rival)}" if rival else ""
    return {
        "name": entry.collected.name,
        "href": f"#{entry.file}",
        "best": best.percent,
        "rival": rival.percent if rival else None,
        "time": fmt.time(best),
        "rung": best.name,
        "percent": fmt.percent(best),
        "against": entry.against,
        "short": f"{fmt.time(best)} · {fmt.percent(best)}",
        "ink": "var(--ink)",
        "strong": False,
        "about": f"{entry.collected.name}, {point.case}, {point.dtype}: "
        f"{fmt.sentence(best, rival.name if rival else '')}{theirs}",
    }


def _chart(rows: list[dict[str, Any]], narrow: bool = False) -> str:
    """One row per operation: the shares of the ceiling of the best rung and the best opponent, joined by a line."""
    left = 0 if narrow else round(LETTER * max(len(row["name"]) for row in rows)) + 26
    columns = (
        []
        if narrow
        else [("best rung", "rung", 216), ("time", "time", 84), ("of ceiling", "percent", 72), ("", "against", 148)]
    )
    width = NARROW - 4 if narrow else WIDE - left - sum(wide for *_, wide in columns) - 14
    step = NARROW_ROW if narrow else ROW
    top = max(100.0, *(max(row["best"], row["rival"] or 0) for row in rows)) + 4
    axis = {
        "title": None,
        "values": [0, 25, 50, 75, 100],
        "labelExpr": "datum.value + ' %'",
        "domain": False,
        "ticks": False,
        "grid": True,
    }
    x: Spec = {"type": "quantitative", "scale": {"domain": [0, top], "nice": False}, "axis": axis}
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "axis": None}
    shift = 10 if narrow else 0
    about = {"href": {"field": "href"}, "description": {"field": "about"}}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "color": "var(--line)", "strokeWidth": 4, "yOffset": shift, "aria": False},
         "encoding": {"x": {**x, "field": "rival"}, "x2": {"field": "best"}, "y": y}},
        {"data": {"values": [{"at": 100}]},
         "mark": {"type": "rule", "color": "var(--ink)", "strokeWidth": 1, "aria": False},
         "encoding": {"x": {**x, "field": "at"}}},
        {"transform": [{"filter": "isValid(datum.rival)"}],
         "mark": {"type": "point", "size": 70, "strokeWidth": 1.8, "stroke": "var(--rival-ink)", "fill": "var(--paper)",
                  "opacity": 1, "yOffset": shift},
         "encoding": {"x": {**x, "field": "rival"}, "y": y, **about}},
        {"mark": {"type": "point", "size": 70, "filled": True, "color": "var(--best)", "opacity": 1, "yOffset": shift},
         "encoding": {"x": {**x, "field": "best"}, "y": y, **about}},
    ]  # fmt: skip
    name = _text("name", {"value": 0 if narrow else -left + 2}, y, "left", "var(--ink)", bold=True)
    name["encoding"]["href"] = {"field": "href"}
    name["mark"] |= {"dy": -7 if narrow else 0}
    layers.append(name)
    if narrow:
        layers += _narrow_columns(y, width)
    at = float(width) + 14
    for heading, field, wide in columns:
        place = at + 22 if field == "rung" else at + wide
        layers += [
            _title(heading, place, -8, "left" if field == "rung" else "right"),
            _text(field, {"value": place}, y, "left" if field == "rung" else "right", "var(--ink)"),
        ]
        at += wide
    specification: Spec = {"data": {"values": rows}, "layer": layers, "width": width}
    margin = {"left": left, "top": 22, "bottom": 18}
    fixed = _fixed(specification, margin, width, step * len(rows), 0 if narrow else at - width)
    drawn = svg(
        fixed,
        "Share of the ceiling that the best rung and the best opponent of each operation reach",
        "narrow" if narrow else "wide",
    )
    return drawn.replace('href="#', 'href="')


def _table(entries: Sequence[IndexEntry]) -> Table:
    rows: list[list[Content]] = []
    for entry in entries:
        collected, point = entry.collected, entry.point
        statuses = [collected.status(name) for name in collected.rungs]
        verdict = tuple(
            Cell(f"{statuses.count(status)} {MARKS[status].partition(' ')[2]}", css=status)
            for status in ("right", "wrong", "untested")
            if statuses.count(status)
        )
        link = Cell(collected.name, entry.file)
        if point is None or point.best is None:
            rows.append([link, "not timed", "", "", "", "", "", verdict])
            continue
        best, at = point.best, Cell(f"{point.case}, {point.dtype}", title=point.size)
        rows.append(
            [link, best.name, at, fmt.time(best), fmt.rate_words(best), fmt.percent(best), entry.against, verdict]
        )
    return Table(["", "best rung", "at", "time", "rate", "of ceiling", "against", "rungs"], rows, css="all")
