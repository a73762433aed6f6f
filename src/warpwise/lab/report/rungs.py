"""The section of one rung: idea, prediction, result, verdicts, hints, source and difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from warpwise.lab.explain.render.format import dimensions, percent, seconds, size, times
from warpwise.lab.explain.words import listed
from warpwise.lab.report import format as fmt
from warpwise.lab.report.collected import Collected, MeasuredPoint, Verified
from warpwise.lab.report.explained import Explained, LaunchExplained
from warpwise.lab.report.html import render
from warpwise.lab.report.panels import key
from warpwise.lab.report.readme import ReadmeNotes
from warpwise.lab.report.source import before, difference, heated, source_of
from warpwise.lab.timing.timing import duration
from warpwise.operation import Rung

MIN_SPEEDUP = 1.05  # smaller estimated speed-ups are not shown
LANGUAGES = {"cuda": "CUDA C++", "triton": "Triton", "c": "C", "python": "Python"}


def rung_section(
    collected: Collected,
    name: str,
    notes: ReadmeNotes,
    explained: Explained | None,
    chosen: MeasuredPoint | None,
    opened: bool,
) -> Markup:
    """The section of one rung, folded below a line with its figures."""
    rung = collected.rung(name)
    status = collected.status(name)
    verdicts = collected.verdicts.get(name, ())
    several = explained is not None and len(explained.launches) > 1
    return render(
        "rung.html",
        name=name,
        idea=rung.idea if rung else "removed since it was measured",
        opened=opened or status == "wrong",
        status=status,
        verdict=fmt.MARKS[status],
        briefs=_briefs(collected, name, chosen),
        change=notes.changes.get(name),
        prediction=notes.predictions.get(name),
        measured=_measured(collected, name, notes),
        verdicts=[_verdict(one, collected.ran(name, one)) for one in verdicts],
        changed=name in collected.changed,
        file=rung.source.name if rung else "",
        language=LANGUAGES.get(rung.language, rung.language) if rung else "",
        failures=[failure for one in verdicts for failure in one.failures],
        explained=explained,
        where=_where(explained) if explained else "",
        beside=_beside(collected, name, explained) if explained and explained.launches else "",
        launches=[_launch(launch, several) for launch in explained.launches] if explained else [],
        **_source(collected, rung, explained),
    )


def _briefs(collected: Collected, name: str, chosen: MeasuredPoint | None) -> list[dict[str, Any]]:
    """The rung's figures in a line, by point."""
    found = []
    for point in collected.points:
        gains = {step.entry.name: step.factor for step in fmt.steps(point, collected.rungs)}
        entry, text = point.entry(name), "not timed"
        if entry is not None and entry.median:
            factor = gains.get(name)
            parts = (duration(entry.median), fmt.percent(entry), fmt.gain(factor) if factor else "")
            text = " · ".join(part for part in parts if part)
        found.append({"key": key(point), "shown": point is chosen, "text": text})
    return found


def _measured(collected: Collected, name: str, notes: ReadmeNotes) -> list[str]:
    """The measured figures at the points of the predictions."""
    found = [point for point in collected.points if (point.case, point.dtype) in notes.points]
    lines = []
    for point in found or collected.points[:1]:
        entry = point.entry(name)
        if entry is not None and entry.median:
            rival = point.rival.name if point.rival else ""
            lines.append(f"{point.case}, {point.dtype}: {fmt.sentence(entry, rival).removeprefix(f'{name}: ')}")
    return lines


def _verdict(one: Verified, where: str) -> dict[str, Any]:
    cases = f", {one.tested} cases" if one.tested else ""
    skipped = f" and {one.skipped} skipped" if one.skipped else ""
    known = not math.isnan(one.worst) and one.status == "right" and one.worst > 0
    worst = f", largest error {one.worst:.0%} of its tolerance" if known else ""
    at = f"{' ' if where.startswith('emulated') else ' on '}{where}, {one.date:%Y-%m-%d}"
    return {"status": one.status, "text": f"{fmt.MARKS[one.status]}{at}{cases}{skipped}{worst}", "notes": one.notes}


def _where(explained: Explained) -> str:
    at = ", ".join(f"{key} {value}" for key, value in explained.sizes.items())
    return f" executed on a CPU at {at}, {explained.dtype}, for {explained.target}"


def _beside(collected: Collected, name: str, explained: Explained) -> str:
    """The measured time of the same launch and the prediction's error; or a note that the launch differs on a GPU; or
    "".
    """
    own = [launch.grid for launch in explained.launches]
    counted = collected.counters.at(name, explained.case, explained.dtype) if collected.counters else ()
    processors = int(collected.environment.get("multiprocessors", 0))
    alike = [launch.grid for launch in counted] == own if counted else max(map(math.prod, own)) >= processors
    if not alike:
        there = f", and {_grids([launch.grid for launch in counted])} on the {collected.device}" if counted else ""
        return (
            f"The launch differs on a GPU: {_grids(own)} here{there}. "
            "A rung that launches as many blocks as fit on the device assumes one SM on a CPU."
        )
    for point in collected.points if collected.measured_on_gpu else ():
        entry, at = point.entry(name), (point.case, dict(point.sizes), point.dtype)
        same = at == (explained.case, dict(explained.sizes), explained.dtype)
        if same and entry is not None and entry.median and explained.seconds:
            off = explained.seconds / entry.median - 1
            measured = f"Measured on the {collected.device} at this size: {duration(entry.median)}"
            return f"{measured}; the prediction is {abs(off):.0%} {'too high' if off > 0 else 'too low'}."
    return ""


def _grids(grids: Sequence[tuple[int, ...]]) -> str:
    return " and ".join(f"grid {dimensions(_three(grid))}" for grid in grids)


def _launch(one: LaunchExplained, several: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"kernel": one.kernel, "named": several}
    if one.seconds is None:
        return {**made, "skipped": f"Not executed: {one.unsupported}." if one.unsupported else "Not executed."}
    occupancy = (
        f"occupancy {percent(one.occupancy)}, by {listed(one.occupancy_by)}" if one.occupancy is not None else ""
    )
    needs = [
        f"{one.registers} registers",
        f"{size(one.shared_bytes)} of shared memory" if one.shared_bytes else "",
        f"{size(one.spilled_bytes)} spilled" if one.spilled_bytes else "",
        occupancy,
        f"grid {dimensions(_three(one.grid))}, block {dimensions(_three(one.block))}",
        f"{one.sampled} executed" if one.sampled else "",
    ]
    hints = [
        {"kind": hint.kind, "title": hint.title, "text": hint.text, "idea": hint.idea, "line": hint.line,
         "gain": times(hint.speedup) if hint.speedup and hint.speedup >= MIN_SPEEDUP else ""}
        for hint in one.hints
    ]  # fmt: skip
    return made | {
        "skipped": "",
        "time": seconds(one.seconds),
        "device": one.device,
        "limiter": one.limiter,
        "units": ", ".join(f"{name} {seconds(value)}" for name, value in one.units),
        "needs": ", ".join(part for part in needs if part),
        "disagrees": one.agreement if one.agrees == "no" else "",
        "hints": hints,
    }


def _three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    first, second, third = (*sizes, 1, 1)[:3]
    return first, second, third


def _source(collected: Collected, rung: Rung | None, explained: Explained | None) -> dict[str, Any]:
    """The rung's source with its counters, and how it differs from the rung before."""
    lines = source_of(rung) if rung else []
    made: dict[str, Any] = dict.fromkeys(("heat", "source", "elsewhere", "difference", "earlier"), "")
    made["missing"] = rung is not None and not lines
    if rung is None or not lines:
        return made
    counters = explained.lines(rung.source) if explained else {}
    made["heat"] = bool(counters)
    made["source"] = heated(lines, rung.source, counters, explained.whole() if explained else {})
    if explained and counters:
        shares = explained.elsewhere(rung.source)
        made["elsewhere"] = ", ".join(f"{name} {percent(share)}" for name, share in shares.items())
    earlier = before(collected.op, rung)
    if earlier is not None and (old := source_of(earlier)):
        made |= {"earlier": earlier.name, "difference": difference(old, lines, rung.source)}
    return made
