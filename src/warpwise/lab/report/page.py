"""The page of one operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from warpwise.lab.report import panels, tables
from warpwise.lab.report.collected import Collected, MeasuredPoint
from warpwise.lab.report.explained import Explained
from warpwise.lab.report.html import render
from warpwise.lab.report.readme import ReadmeNotes, read
from warpwise.lab.report.rungs import rung_section
from warpwise.lab.store.records import GRADIENT


def page(collected: Collected, explained: Mapping[str, Explained] | None = None, index: str = "index.html") -> str:
    """The whole document; ``index`` is the target of its first link."""
    notes = readme_notes(collected)
    chosen = shown_first(collected)
    explained = explained or {}
    points = [_named(point, chosen, label=panels.label(point), dtype=point.dtype) for point in collected.points]
    shown = [panels.panel(collected, point, point is chosen) for point in collected.points]
    best = chosen.best.name if chosen and chosen.best else ""
    return str(
        render(
            "page.html",
            title=collected.name,
            name=collected.name,
            summary=collected.op.spec.summary,
            index=index,
            stamp=_stamp(collected, chosen),
            points=points,
            panels=shown or [panels.predicted(collected, explained)],
            rooflines=_rooflines(collected, chosen),
            curves=_curves(collected, chosen),
            counted=_counted(collected, chosen),
            rungs=[
                rung_section(collected, name, notes, explained.get(name), chosen, name == best)
                for name in collected.rungs
            ],
            notes=notes.paragraphs,
            verdicts=tables.verdicts(collected),
            gradient=collected.verdicts.get(GRADIENT, ()),
            environment=tables.environment(collected),
        )
    )


def _named(point: MeasuredPoint, chosen: MeasuredPoint | None, **content: Any) -> dict[str, Any]:
    """``content`` of one point, with the point's key; ``shown`` is True for the point that the page shows first."""
    return {"key": panels.key(point), "shown": point is chosen, **content}


def shown_first(collected: Collected) -> MeasuredPoint | None:
    """The point to show first: the one that the README's predictions are for, else the first."""
    for case, dtype in readme_notes(collected).points:
        for point in collected.points:
            if (point.case, point.dtype) == (case, dtype):
                return point
    return next(iter(collected.points), None)


def readme_notes(collected: Collected) -> ReadmeNotes:
    """The README and the notes of the operation."""
    op = collected.op
    if op.tables is not None and op.tables.folder is not None:
        return read(op.tables.folder.parent, collected.name)
    return read(op.rungs[0].source.parent, collected.name) if op.rungs else ReadmeNotes()


def _stamp(collected: Collected, chosen: MeasuredPoint | None) -> str:
    """The device and date of the times, or ""."""
    if chosen is None:
        return ""
    on_cpu = f"timed on a CPU ({collected.device.removeprefix('cpu: ')})"
    return f"{collected.device if collected.measured_on_gpu else on_cpu}, {chosen.run.started:%Y-%m-%d}"


def _rooflines(collected: Collected, chosen: MeasuredPoint | None) -> list[dict[str, Any]]:
    found = [(point, *panels.roof(collected, point)) for point in collected.points]
    return [_named(point, chosen, picture=drawn, caption=caption) for point, drawn, caption in found if drawn]


def _curves(collected: Collected, chosen: MeasuredPoint | None) -> list[dict[str, Any]]:
    """The charts over the sizes, by dtype."""
    found = []
    for dtype in dict.fromkeys(point.dtype for point in collected.points):
        drawn: list[Markup] = panels.across(collected, [point for point in collected.points if point.dtype == dtype])
        if drawn:
            found.append({"dtype": dtype, "shown": chosen is not None and dtype == chosen.dtype, "pictures": drawn})
    return found


def _counted(collected: Collected, chosen: MeasuredPoint | None) -> list[dict[str, Any]]:
    """ncu's counters, by point."""
    found = [(point, tables.counted(collected, point)) for point in collected.points]
    return [_named(point, chosen, listed=listed) for point, listed in found if listed.rows]
