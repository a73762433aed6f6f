"""The picture of an explanation as HTML: a fragment for a notebook or a report, or a page of its own. No script, no fonts."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from warpwise.lab.display import renders
from warpwise.lab.explain.model import source_lines
from warpwise.lab.explain.model.explanation import Explanation, Line
from warpwise.lab.explain.model.source_lines import Column
from warpwise.lab.explain.render import lanes, svg
from warpwise.lab.explain.render.format import count, dimensions, heat, listed, percent, seconds, size, times
from warpwise.lab.explain.render.html_style import STYLE

_MOST_LINES = 8  # whose lanes are drawn
_UNITS = 8


@renders(Explanation, "html")
def rendered(explanation: Explanation, line: int | None = None, whole: bool = False) -> str:
    """A fragment, or with ``whole`` a document; ``line`` is the line whose requests are opened."""
    return page([explanation], line) if whole else fragment(explanation, line)


def page(explanations: Iterable[Explanation], line: int | None = None) -> str:
    """A whole document of one or several launches; ``line`` is opened in those that have it."""
    explanations = list(explanations)
    title = ", ".join(dict.fromkeys(one.kernel for one in explanations)) or "Warpwise"
    body = "".join(fragment(one, line if one.has_line(line) else None, style=False) for one in explanations)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
        f"<style>{STYLE}body{{margin:0}}</style></head><body>{body}</body></html>\n"
    )


def fragment(explanation: Explanation, line: int | None = None, style: bool = True) -> str:
    """One launch; ``style`` brings the style sheet along, which touches nothing outside of the fragment."""
    identity = _identity(explanation)
    chosen = explanation.line(line) if line is not None else explanation.worst
    drawn = _drawn(explanation, chosen)
    parts = [
        _head(explanation), _limiter(explanation), _hints(explanation, identity, drawn),
        _source(explanation, identity, drawn), _lanes(explanation, identity, drawn), _accesses(explanation),
        _occupancies(explanation), _caveats(explanation),
    ]  # fmt: skip
    sheet = f"<style>{STYLE}</style>" if style else ""
    return f'{sheet}<article class="ww-explain" id="{identity}">{"".join(parts)}</article>'


def _identity(explanation: Explanation) -> str:
    text = f"{explanation.kernel} {explanation.target} {explanation.grid} {explanation.block}"
    return f"ww-{zlib.crc32(text.encode()):08x}"


def _anchor(identity: str, line: Line) -> str:
    return f"{identity}-{zlib.crc32(line.file.encode()) & 0xFFFF:x}-{line.number}"


def _drawn(explanation: Explanation, chosen: Line | None) -> list[tuple[Line, list[lanes.Request]]]:
    """The lines whose lanes are drawn, the chosen one first and then those that cost most."""

    def traffic(line: Line) -> float:
        return sum(line.counters.get(name, 0) for name in ("sectors", "local_sectors", "wavefronts"))

    rest = sorted(
        (line for line in explanation.lines if line is not chosen and traffic(line)), key=traffic, reverse=True
    )
    found = [(line, lanes.requests(explanation, line)) for line in ([chosen] if chosen else []) + rest]
    return [(line, requests) for line, requests in found if requests][:_MOST_LINES]


def _section(title: str, body: str, name: str = "") -> str:
    return f'<section class="{name}"><h3>{escape(title)}</h3>{body}</section>' if body else ""


def _head(explanation: Explanation) -> str:
    needs, fits = explanation.resources, explanation.occupancy
    facts = [
        ("target", explanation.target), ("grid", dimensions(explanation.grid)), ("block", dimensions(explanation.block)),
        ("registers", f"{needs.registers}"), ("shared memory", size(needs.shared)),
        ("spilled", size(needs.spill_stores) if needs.spill_stores else "nothing"),
    ]  # fmt: skip
    if fits is not None:
        facts.append(("occupancy", fits.refusal or f"{percent(fits.fraction)}, by {listed(fits.binding)}"))
    if explanation.sampled:
        facts.append(("sampled", explanation.sampled))
    chips = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f"<header><h2>{escape(explanation.kernel)}</h2><dl>{chips}</dl></header>"


def _limiter(explanation: Explanation) -> str:
    expected = explanation.prediction
    if expected is None:
        not_run = (
            f'<p class="ww-big">Not executed: {escape(explanation.unsupported)}.</p>' if explanation.unsupported else ""
        )
        return f'<section class="ww-limiter">{not_run}{_agreement(explanation)}</section>'
    rows = []
    ordered = sorted(expected.units.items(), key=lambda item: -item[1])[:_UNITS]
    longest = max(expected.time, ordered[0][1]) or 1.0
    for name, needed in ordered:
        demand = expected.demands.get(name)
        what = f"{count(demand.amount)} {demand.what}" if demand else ""
        hot = ' class="ww-hot"' if name == expected.limiter else ""
        rows.append(
            f'<tr{hot}><th scope="row">{escape(name)}</th><td class="ww-wide"><i style="width:{100 * needed / longest:.1f}%"></i>'
            f'</td><td class="ww-n">{seconds(needed)}</td><td class="ww-faint">{escape(what)}</td></tr>'
        )
    big = (
        f'<p class="ww-big"><b>{seconds(expected.time)}</b> predicted on one {escape(expected.device)}, limited by '
        f"<b>{escape(expected.limiter)}</b>. Reading and writing every byte once takes {seconds(expected.floor)}.</p>"
    )
    return f'<section class="ww-limiter">{big}<div class="ww-scroll"><table>{"".join(rows)}</table></div>{_agreement(explanation)}</section>'


def _agreement(explanation: Explanation) -> str:
    agrees = explanation.agrees
    head = {"yes": "Outputs agree", "no": "Outputs disagree"}.get(agrees.status, "Outputs not compared")
    kind = {"yes": "ww-good", "no": "ww-bad"}.get(agrees.status, "ww-faint")
    return f'<p class="{kind}"><b>{head}</b>: {escape(agrees.text)}.</p>'


def _hints(explanation: Explanation, identity: str, drawn: Sequence[tuple[Line, list[lanes.Request]]]) -> str:
    anchors = {(line.file, line.number): _anchor(identity, line) for line, _ in drawn}
    cards = []
    for hint in explanation.hints:
        gain = (
            f'<span class="ww-gain">up to {times(hint.speedup)} faster</span>'
            if hint.speedup and hint.speedup >= 1.05
            else ""
        )
        where = ""
        if hint.line:
            place = f"{Path(hint.file).name}:{hint.line}"
            anchor = anchors.get((hint.file, hint.line))
            where = f'<a href="#{anchor}">{escape(place)}</a>' if anchor else escape(place)
        idea = f'<p class="ww-idea">{escape(hint.idea)}</p>' if hint.idea else ""
        cards.append(
            f'<li class="ww-{hint.kind.lower()}"><p><span class="ww-kind">{hint.kind}</span> <b>{escape(hint.title)}</b> {gain} {where}</p>'
            f"<p>{escape(hint.text)}</p>{idea}</li>"
        )
    return _section("Hints", f"<ul>{''.join(cards)}</ul>" if cards else "", "ww-hints")


def _source(explanation: Explanation, identity: str, drawn: Sequence[tuple[Line, list[lanes.Request]]]) -> str:
    columns = source_lines.shown_columns(explanation.lines)
    whole = {
        column.key: sum(line.counters.get(column.key, 0) for line in explanation.lines) or 1.0 for column in columns
    }
    anchors = {(line.file, line.number): _anchor(identity, line) for line, _ in drawn}
    tables = []
    files = sorted({line.file for line in explanation.lines}, key=lambda name: name != explanation.main_file)
    for file in files if columns else ():
        table = _file(explanation, file, whole, anchors)
        if file != explanation.main_file:
            known = sum(line.file == file for line in explanation.lines)
            what = f"{known} line{'s' * (known > 1)} of an included file"
            table = f"<details><summary>{escape(Path(file).name)}: {what}</summary>{table}</details>"
        tables.append(table)
    legend = (
        '<p class="ww-legend"><i style="background:var(--need)"></i>sectors and wavefronts that full use of each would need'
        '<i style="background:var(--waste)"></i>those beyond</p>'
    )
    wasteful = any(column.best for column in columns)
    return _section("Where it goes", (legend if wasteful else "") + "".join(tables), "ww-code")


def _file(explanation: Explanation, file: str, whole: dict[str, float], anchors: dict[tuple[str, int], str]) -> str:
    """The source of one file, with the columns that say anything about it."""
    own = {line.number: line for line in explanation.lines if line.file == file}
    columns = source_lines.shown_columns(own.values())
    heads = "".join(
        f'<th scope="col" title="{escape(column.explained)}">{escape(column.title)}</th>' for column in columns
    )
    rows = []
    text = explanation.sources.get(file, ())
    for number in source_lines.numbers(own, file == explanation.main_file and bool(text)):
        if number is None:
            rows.append(f'<tr class="ww-skip"><td>⋮</td><td colspan="{len(columns) + 1}"></td></tr>')
            continue
        code = text[number - 1] if number <= len(text) else own[number].text if number in own else ""
        rows.append(_source_row(number, code, own.get(number), columns, whole, anchors.get((file, number), "")))
    return (
        f'<div class="ww-scroll"><table class="ww-source"><thead><tr><th scope="col">line</th>'
        f'<th scope="col">{escape(Path(file).name)}</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _source_row(
    number: int, code: str, line: Line | None, columns: list[Column], whole: dict[str, float], anchor: str
) -> str:
    hottest = (
        max((heat(line.counters.get(column.key, 0) / whole[column.key]) for column in columns), default=0)
        if line
        else 0
    )
    shown = f'<a href="#{anchor}" title="its lanes">{number}</a>' if anchor else str(number)
    ran = line is not None and bool(line.counters.get("executed"))
    cells = "".join(_cell(line, column, whole) for column in columns)
    quiet = "" if ran else ' class="ww-quiet"'
    return f'<tr data-heat="{hottest}"{quiet}><td>{shown}</td><td><code>{escape(code) or " "}</code></td>{cells}</tr>'


def _cell(line: Line | None, column: Column, whole: dict[str, float]) -> str:
    value = line.counters.get(column.key, 0) if line is not None else 0
    if line is None or not value:
        return "<td></td>"
    share = value / whole[column.key]
    factor = source_lines.ratio(line, column)
    bars = f'<i style="width:{100 * share:.1f}%"></i>'
    note = ""
    if factor is not None and factor > 1.05:
        bars = f'<i class="ww-need" style="width:{100 * share / factor:.1f}%"></i><i class="ww-waste" style="width:{100 * share * (1 - 1 / factor):.1f}%"></i>'
        note = f' <b class="ww-bad">{times(factor)}</b>'
    elif column.best:
        bars = f'<i class="ww-need" style="width:{100 * share:.1f}%"></i>'
    text = percent(share) if column.key == "stall_cycles" else count(value)
    tip = f"{value:,.0f}: {percent(share)} of all" + (f", {times(factor)} the least" if factor else "")
    return f'<td data-label="{escape(column.title)}" title="{escape(tip)}"><span class="ww-bar">{bars}</span><span class="ww-n">{text}{note}</span></td>'


def _lanes(explanation: Explanation, identity: str, drawn: Sequence[tuple[Line, list[lanes.Request]]]) -> str:
    parts = []
    for position, (line, requests) in enumerate(drawn):
        anchor = _anchor(identity, line)
        pictures = "".join(_request(one, f"{anchor}-{number}") for number, one in enumerate(requests[:3]))
        opened = ' open=""' if position == 0 else ""
        head = requests[0]
        wasteful = (
            f' <b class="ww-bad">{times(head.factor)} the least</b>'
            if head.factor > 1.05
            else ' <span class="ww-good">the least there is</span>'
        )
        parts.append(
            f'<details id="{anchor}"{opened}><summary><b>{escape(str(line))}</b> <code>{escape(line.text.strip())}</code> '
            f"<span>{head.kind} {head.action}, {head.cost} {head.unit}{'s' if head.cost != 1 else ''} a request</span>{wasteful}</summary>{pictures}</details>"
        )
    return _section("One warp's lanes", "".join(parts), "ww-requests")


def _request(one: lanes.Request, identity: str) -> str:
    plural = "s" if one.cost != 1 else ""
    at_best = f"where {one.ideal} would do" if one.cost > one.ideal else "the least there is"
    alike = f" · {one.alike} instructions alike" if one.alike > 1 else ""
    caption = (
        f"<b>{one.cost} {one.unit}{plural}</b>, {at_best}: {escape(one.pattern)}. "
        f'<span class="ww-faint"><code>{escape(one.text)}</code> · block {one.block}, warp {one.warp} · '
        f"{count(one.requests)} requests{alike}</span>"
    )
    if one.counted != one.cost:
        caption += f" The hardware's rules make that {one.cost}."
    return (
        f'<figure><figcaption>{caption}</figcaption><div class="ww-scroll">{svg.request(one, identity)}</div></figure>'
    )


def _accesses(explanation: Explanation) -> str:
    rows = "".join(
        f'<tr><td>{one.line}</td><td>{escape(one.what)}</td><td><code>{escape(one.tensor)}</code></td><td class="ww-n">{size(one.bytes)}</td>'
        f'<td class="ww-n">{count(one.requests)}</td><td class="ww-n">{count(one.sectors)}</td>'
        f'<td class="ww-n">{times(one.sectors / one.ideal_sectors) if one.ideal_sectors else ""}</td><td class="ww-n">{one.vector} B</td></tr>'
        for one in explanation.accesses
    )
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("line", "", "tensor", "bytes", "requests", "sectors", "×ideal", "a lane")
    )
    table = f'<div class="ww-scroll"><table class="ww-plain"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return _section("Loads and stores of the program, from the interpreter", table if rows else "")


def _occupancies(explanation: Explanation) -> str:
    rows = []
    for name, one in explanation.occupancies.items():
        hot = ' class="ww-hot"' if name == explanation.target else ""
        reason = one.refusal or f"{one.blocks} blocks, by {listed(one.binding)}"
        rows.append(
            f'<tr{hot}><th scope="row">{escape(name)}</th><td class="ww-wide"><i style="width:{100 * one.fraction:.0f}%"></i></td>'
            f'<td class="ww-n">{percent(one.fraction)}</td><td class="ww-faint">{escape(reason)}</td></tr>'
        )
    note = f'<p class="ww-faint">With the registers that the compiler gave it for {escape(explanation.target)}.</p>'
    table = f'<details><summary>Occupancy on every GPU</summary>{note}<div class="ww-scroll"><table>{"".join(rows)}</table></div></details>'
    return f'<section class="ww-limiter">{table}</section>' if rows else ""


def _caveats(explanation: Explanation) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in explanation.caveats)
    return _section("What these counters cannot see", f"<ul>{items}</ul>" if items else "", "ww-caveats")
