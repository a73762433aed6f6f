"""The part of a page about one rung: the idea, what was predicted and what came, verdicts, hints, source and difference."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpwise.lab.explain.render.format import dimensions, listed, percent, seconds, size, times
from warpwise.lab.report import format as fmt
from warpwise.lab.report.collected import Collected, Point, Verified
from warpwise.lab.report.explained import Explained, LaunchExplained
from warpwise.lab.report.markup import Markup, element, folded, inline, joined
from warpwise.lab.report.panels import key
from warpwise.lab.report.readme import Told
from warpwise.lab.report.source import before, difference, heated, source_of
from warpwise.lab.timing.timing import duration
from warpwise.registry import Rung

LANGUAGES = {"cuda": "CUDA C++", "triton": "Triton", "c": "C", "python": "Python"}


def rung_section(
    collected: Collected, name: str, told: Told, explained: Explained | None, chosen: Point | None, opened: bool
) -> Markup:
    """All of one rung, to be opened from a line that has its figures."""
    rung = collected.rung(name)
    status = collected.status(name)
    gains = {
        (key(point), step.entry.name): step for point in collected.points for step in fmt.steps(point, collected.rungs)
    }
    figures = joined(*(
        element("span", _brief(point, name, gains.get((key(point), name))), data_point=key(point), hidden=point is not chosen, class_="brief")
        for point in collected.points
    ))  # fmt: skip
    summary = element(
        "summary", element("code", name, class_="name"), element("span", rung.idea if rung else "gone since it was measured", class_="idea"),
        figures, element("span", fmt.MARKS[status], class_=f"verdict {status}"),
    )  # fmt: skip
    facts = _facts(collected, name, rung, told)
    body = [facts, *_findings(collected.verdicts.get(name, ()))]
    if explained is not None:
        body.append(_explanation(collected, name, explained))
    if rung is not None:
        body += _source(collected, rung, explained)
    return element(
        "details",
        summary,
        element("div", *body, class_="body"),
        id=name,
        class_="rung",
        open=opened or status == "wrong",
    )


def _brief(point: Point, name: str, step: fmt.Step | None) -> str:
    entry = point.entry(name)
    if entry is None or not entry.median:
        return "not timed"
    gain = fmt.gain(step.factor) if step and step.factor else ""
    return " · ".join(part for part in (duration(entry.median), fmt.percent(entry), gain) if part)


def _facts(collected: Collected, name: str, rung: Rung | None, told: Told) -> Markup:
    rows: list[tuple[str, Markup]] = []
    if change := told.changes.get(name):
        rows.append(("changes", inline(change)))
    if prediction := told.predictions.get(name):
        rows.append(("predicted", inline(prediction)))
    if came := _came(collected, name, told):
        rows.append(("came", came))
    for verdict in collected.verdicts.get(name, ()):
        rows.append(("verdict", _verdict(verdict, collected.ran(name, verdict))))
    if name in collected.changed:
        rows.append(("note", Markup("The source has changed since these times were taken.")))
    if rung is not None:
        rows.append(
            ("in", joined(LANGUAGES.get(rung.language, rung.language), element("code", rung.source.name), by=", "))
        )
    return element("dl", *(joined(element("dt", head), element("dd", text)) for head, text in rows), class_="facts")


def _came(collected: Collected, name: str, told: Told) -> Markup:
    """The figures at the points that the predictions are for."""
    found = [point for point in collected.points if (point.case, point.dtype) in told.points] or list(
        collected.points[:1]
    )
    lines = []
    for point in found:
        entry = point.entry(name)
        if entry is not None and entry.median:
            rival = point.rival.name if point.rival else ""
            lines.append(f"{point.case}, {point.dtype}: {fmt.sentence(entry, rival).removeprefix(f'{name}: ')}")
    return joined(*lines, by=Markup("<br>"))


def _verdict(one: Verified, where: str) -> Markup:
    cases = f", {one.tested} cases" if one.tested else ""
    skipped = f" and {one.skipped} skipped" if one.skipped else ""
    worst = (
        f", largest error {one.worst:.0%} of its tolerance"
        if one.worst == one.worst and one.status == "right" and one.worst > 0
        else ""
    )
    text = f"{fmt.MARKS[one.status]}{' ' if where.startswith('emulated') else ' on '}{where}, {one.date:%Y-%m-%d}{cases}{skipped}{worst}"
    return joined(element("span", text, class_=one.status), *(f"; {note}" for note in one.notes))


def _findings(verdicts: Sequence[Verified]) -> list[Markup]:
    """What is wrong, in full."""
    return [element("pre", failure, class_="finding") for one in verdicts for failure in one.failures]


def _explanation(collected: Collected, name: str, explained: Explained) -> Markup:
    if not explained.launches:
        return element("p", f"Not explained: {explained.reason}", class_="reason")
    at = ", ".join(f"{key} {value}" for key, value in explained.sizes.items())
    where = f" executed on a CPU at {at}, {explained.dtype}, for {explained.target}"
    head = element("h3", "Why it takes its time", element("small", where))
    beside = _beside(collected, name, explained)
    return joined(head, beside, *(_launch(launch, len(explained.launches) > 1) for launch in explained.launches))


def _beside(collected: Collected, name: str, explained: Explained) -> Markup:
    """The predicted time beside the measured one, if just this was measured; or that a GPU is given another launch."""
    own = [launch.grid for launch in explained.launches]
    counted = collected.counters.at(name, explained.case, explained.dtype) if collected.counters else ()
    processors = int(collected.environment.get("multiprocessors", 0))
    alike = [launch.grid for launch in counted] == own if counted else max(map(math.prod, own)) >= processors
    if not alike:
        there = f", and {_grids([launch.grid for launch in counted])} on the {collected.device}" if counted else ""
        text = f"This is not the launch that a GPU gets: {_grids(own)} here{there}. A rung that asks for as many blocks as a device has room for finds one SM on a CPU."
        return element("p", text, class_="beside")
    for point in collected.points if collected.measured_on_gpu else ():
        entry = point.entry(name)
        same = (
            point.dtype == explained.dtype
            and dict(point.sizes) == dict(explained.sizes)
            and point.case == explained.case
        )
        if same and entry is not None and entry.median and explained.seconds:
            off = explained.seconds / entry.median - 1
            text = f"Measured on the {collected.device} at this size: {duration(entry.median)}; the prediction is {abs(off):.0%} "
            return element("p", text + ("too high." if off > 0 else "too low."), class_="beside")
    return Markup("")


def _grids(grids: Sequence[tuple[int, ...]]) -> str:
    return " and ".join(f"grid {dimensions(_three(grid))}" for grid in grids)


def _launch(one: LaunchExplained, several: bool) -> Markup:
    named = joined(element("code", one.kernel), " ") if several else Markup("")
    if one.seconds is None:
        return element(
            "p", named, f" Not executed: {one.unsupported}." if one.unsupported else " Not executed.", class_="reason"
        )
    occupancy = (
        f"occupancy {percent(one.occupancy)}, by {listed(one.occupancy_by)}" if one.occupancy is not None else ""
    )
    needs = [
        f"{one.registers} registers", f"{size(one.shared_bytes)} of shared memory" if one.shared_bytes else "",
        f"{size(one.spilled_bytes)} spilled" if one.spilled_bytes else "", occupancy,
        f"grid {dimensions(_three(one.grid))}, block {dimensions(_three(one.block))}", f"{one.sampled} executed" if one.sampled else "",
    ]  # fmt: skip
    units = ", ".join(f"{name} {seconds(value)}" for name, value in one.units)
    text = joined(
        named, element("b", f"{seconds(one.seconds)} predicted"), f" on one {one.device}, limited by ", element("b", one.limiter),
        f" ({units}). {', '.join(part for part in needs if part)}.",
    )  # fmt: skip
    warn = (
        element("p", f"Its outputs do not agree with the checked run: {one.agreement}.", class_="wrong")
        if one.agrees == "no"
        else Markup("")
    )
    hints = [
        element(
            "li", element("b", hint.title), *((element("em", f" up to {times(hint.speedup)} faster"),) if hint.speedup and hint.speedup >= 1.05 else ()),
            f" line {hint.line}: {hint.text}" if hint.line else f": {hint.text}", f" {hint.idea}" if hint.idea else "", class_=hint.kind.lower(),
        )
        for hint in one.hints
    ]  # fmt: skip
    return joined(element("p", text), warn, element("ul", *hints, class_="hints") if hints else "")


def _three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    first, second, third = (*sizes, 1, 1)[:3]
    return first, second, third


def _source(collected: Collected, rung: Rung, explained: Explained | None) -> list[Markup]:
    lines = source_of(rung)
    if not lines:
        return [element("p", f"The file {rung.source.name} is gone.", class_="reason")]
    counters = explained.lines(rung.source) if explained else {}
    heat = " with where its time goes" if counters else ""
    parts: list[str] = [heated(lines, rung.source, counters, explained.whole() if explained else {})]
    shares = (
        [f"{name} {percent(share)}" for name, share in explained.elsewhere(rung.source).items()]
        if explained and counters
        else []
    )
    if shares:
        parts.append(element("p", f"Of the waiting, in files that it includes: {', '.join(shares)}.", class_="reason"))
    made = [folded(f"source{heat}", *parts, open=True, class_="code")]
    earlier = before(collected.op, rung)
    if earlier is not None and (old := source_of(earlier)):
        made.append(folded(f"what changed since {earlier.name}", difference(old, lines, rung.source), class_="code"))
    return made
