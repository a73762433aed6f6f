"""An explanation as HTML: a fragment for a notebook or a report, or a page of its own. No script, no fonts."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from warpwise.lab.display import renders
from warpwise.lab.explain.model import source_lines
from warpwise.lab.explain.model.explanation import Explanation, Line
from warpwise.lab.explain.model.source_lines import Column
from warpwise.lab.explain.render import lanes, svg
from warpwise.lab.explain.render.format import count, dimensions, heat, percent, seconds, size, times
from warpwise.lab.explain.words import listed
from warpwise.lab.html_templates import Templates

_MOST_LINES = 8  # lines whose requests are drawn
_UNITS = 8
_WASTEFUL = 1.05  # factor over the ideal from which it is shown
_TEMPLATES = Templates(
    "warpwise.lab.explain.render", count=count, listed=listed, percent=percent, seconds=seconds, size=size, times=times
)

Drawn = list[tuple[Line, list[lanes.Request]]]


@renders(Explanation, "html")
def rendered(explanation: Explanation, line: int | None = None, whole: bool = False) -> str:
    """A fragment, or with ``whole`` a document; ``line`` is the line whose requests are opened."""
    return page([explanation], line) if whole else fragment(explanation, line)


def page(explanations: Iterable[Explanation], line: int | None = None, about: str = "") -> str:
    """A whole document of one or several launches; ``line`` is opened in those that have it.

    ``about`` stands above them: the rung, dtype and sizes.
    """
    explanations = list(explanations)
    title = ", ".join(dict.fromkeys(one.kernel for one in explanations)) or "Warpwise"
    fragments = [_fragment(one, line if one.has_line(line) else None, style=False) for one in explanations]
    return str(_TEMPLATES.render("page.html", title=title, fragments=fragments, about=about)) + "\n"


def fragment(explanation: Explanation, line: int | None = None) -> str:
    """One launch, with a style sheet that applies to the fragment only."""
    return str(_fragment(explanation, line, style=True))


def _fragment(explanation: Explanation, line: int | None, style: bool) -> Markup:
    identity = _identity(explanation)
    drawn = _drawn(explanation, explanation.line(line) if line is not None else explanation.worst)
    anchors = {(line.file, line.number): _anchor(identity, line) for line, _ in drawn}
    columns = source_lines.shown_columns(explanation.lines)
    return _TEMPLATES.render(
        "explanation.html",
        explanation=explanation,
        identity=identity,
        style=style,
        facts=_facts(explanation),
        units=_units(explanation),
        hints=_hints(explanation, anchors),
        files=_files(explanation, columns, anchors),
        legend=any(column.best for column in columns),
        draw=svg.request,
        drawn=[{"line": line, "requests": requests, "anchor": _anchor(identity, line)} for line, requests in drawn],
    )


def _identity(explanation: Explanation) -> str:
    text = f"{explanation.kernel} {explanation.target} {explanation.grid} {explanation.block}"
    return f"ww-{zlib.crc32(text.encode()):08x}"


def _anchor(identity: str, line: Line) -> str:
    return f"{identity}-{zlib.crc32(line.file.encode()) & 0xFFFF:x}-{line.number}"


def _drawn(explanation: Explanation, chosen: Line | None) -> Drawn:
    """The lines whose requests are drawn, the chosen one first, then by sectors and wavefronts."""

    def traffic(line: Line) -> float:
        return sum(line.counters.get(name, 0) for name in ("sectors", "local_sectors", "wavefronts"))

    rest = sorted(
        (line for line in explanation.lines if line is not chosen and traffic(line)), key=traffic, reverse=True
    )
    found = [(line, lanes.requests(explanation, line)) for line in ([chosen] if chosen else []) + rest]
    return [(line, requests) for line, requests in found if requests][:_MOST_LINES]


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    needs, fits = explanation.resources, explanation.occupancy
    facts = [
        ("target", explanation.target),
        ("grid", dimensions(explanation.grid)),
        ("block", dimensions(explanation.block)),
        ("registers", f"{needs.registers}"),
        ("shared memory", size(needs.shared)),
        ("spilled", size(needs.spill_stores) if needs.spill_stores else "nothing"),
    ]
    if fits is not None:
        facts.append(("occupancy", fits.refusal or f"{percent(fits.fraction)}, by {listed(fits.binding)}"))
    if explanation.sampled:
        facts.append(("sampled", explanation.sampled))
    return facts


def _units(explanation: Explanation) -> list[dict[str, Any]]:
    """The units with the longest busy time; the width of each bar in percent."""
    expected = explanation.prediction
    if expected is None:
        return []
    ordered = sorted(expected.units.items(), key=lambda item: -item[1])[:_UNITS]
    longest = max(expected.time, ordered[0][1]) or 1.0
    return [
        {
            "name": name,
            "seconds": needed,
            "width": f"{100 * needed / longest:.1f}",
            "demand": expected.demands.get(name),
        }
        for name, needed in ordered
    ]


def _hints(explanation: Explanation, anchors: Mapping[tuple[str, int], str]) -> list[dict[str, Any]]:
    return [
        {
            "kind": hint.kind,
            "title": hint.title,
            "text": hint.text,
            "idea": hint.idea,
            "gain": times(hint.speedup) if hint.speedup and hint.speedup >= _WASTEFUL else "",
            "place": f"{Path(hint.file).name}:{hint.line}" if hint.line else "",
            "anchor": anchors.get((hint.file, hint.line), "") if hint.line else "",
        }
        for hint in explanation.hints
    ]


def _files(
    explanation: Explanation, columns: Sequence[Column], anchors: Mapping[tuple[str, int], str]
) -> list[dict[str, Any]]:
    """The source of each file with machine code, the file that declares the kernel first."""
    whole = {
        column.key: sum(line.counters.get(column.key, 0) for line in explanation.lines) or 1.0 for column in columns
    }
    files = sorted({line.file for line in explanation.lines}, key=lambda name: (name != explanation.main_file, name))
    return [_file(explanation, file, whole, anchors) for file in files if columns]


def _file(
    explanation: Explanation, file: str, whole: Mapping[str, float], anchors: Mapping[tuple[str, int], str]
) -> dict[str, Any]:
    own = {line.number: line for line in explanation.lines if line.file == file}
    columns, main = source_lines.shown_columns(own.values()), file == explanation.main_file
    text = explanation.sources.get(file, ())
    rows: list[dict[str, Any] | None] = []
    for number in source_lines.numbers(own, main and bool(text)):
        if number is None:
            rows.append(None)
            continue
        line = own.get(number)
        shares = [line.counters.get(column.key, 0) / whole[column.key] for column in columns] if line else []
        rows.append(
            {
                "number": number,
                "code": text[number - 1] if number <= len(text) else line.text if line else "",
                "heat": max(map(heat, shares), default=0),
                "ran": line is not None and bool(line.counters.get("executed")),
                "anchor": anchors.get((file, number), ""),
                "cells": [_cell(line, column, whole) for column in columns],
            }
        )
    return {"name": Path(file).name, "main": main, "known": len(own), "columns": columns, "rows": rows}


def _cell(line: Line | None, column: Column, whole: Mapping[str, float]) -> dict[str, Any] | None:
    """A counter of a line: its text, and the widths in percent of the bar's two parts, ideal and excess."""
    value = line.counters.get(column.key, 0) if line is not None else 0
    if line is None or not value:
        return None
    share = value / whole[column.key]
    factor = source_lines.ratio(line, column)
    wasteful = factor is not None and factor > _WASTEFUL
    need = share / factor if factor and wasteful else share
    return {
        "title": column.title,
        "best": column.best,
        "text": percent(share) if column.key == "stall_cycles" else count(value),
        "need": f"{100 * need:.1f}",
        "waste": f"{100 * (share - need):.1f}" if wasteful else "",
        "factor": times(factor) if factor else "",
        "tip": f"{value:,.0f}: {percent(share)} of all" + (f", {times(factor)} the ideal" if factor else ""),
    }
