"""A rung's source: every line with what it cost, and how it differs from the rung before."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from warpwise.lab.explain.model import source_lines
from warpwise.lab.explain.model.explanation import Line
from warpwise.lab.explain.model.source_lines import Column
from warpwise.lab.explain.render.format import count, heat, percent, times
from warpwise.lab.report.markup import Markup, element, joined
from warpwise.registry import Op, Rung

WASTEFUL = 1.05
CONTEXT = 3  # lines around a change
ALIKE = 0.5  # of two lines' words, from where on their difference is shown word by word
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


def source_of(rung: Rung) -> list[str]:
    """The lines of a rung's file; none if the file is gone."""
    return rung.source.read_text("utf-8", "replace").splitlines() if rung.source.is_file() else []


def before(op: Op, rung: Rung) -> Rung | None:
    """The rung that this one is compared with: the nearest one above it in the same language and another file."""
    position = op.rungs.index(rung)
    for earlier in reversed(op.rungs[:position]):
        if earlier.language == rung.language and earlier.source != rung.source:
            return earlier
    return None


def _tokens(text: str, path: Path) -> Iterator[tuple[str, str]]:
    """Pieces of ``text`` with the CSS class of their kind: preprocessor, string, comment, keyword, number, or ""."""
    from pygments.lexers import CLexer, CppLexer, PythonLexer
    from pygments.token import Token

    kinds = (
        (Token.Comment.Preproc, "p"), (Token.Comment.PreprocFile, "s"), (Token.Comment, "c"), (Token.Literal.String.Doc, "c"),
        (Token.Keyword, "k"), (Token.Name.Builtin, "k"), (Token.Name.Decorator, "p"), (Token.Literal.String, "s"),
        (Token.Literal.Number, "n"),
    )  # fmt: skip
    lexer = {".py": PythonLexer, ".c": CLexer}.get(path.suffix, CppLexer)(stripnl=False, ensurenl=False)
    for token, value in lexer.get_tokens(text):
        yield next((name for group, name in kinds if token in group), ""), value


def coloured(lines: Sequence[str], path: Path) -> list[Markup]:
    """Each line as HTML, with comments, keywords, strings, numbers and directives marked."""
    rows: list[list[str]] = [[]]
    for kind, value in _tokens("\n".join(lines), path):
        for number, part in enumerate(value.split("\n")):
            if number:
                rows.append([])
            if part:
                rows[-1].append(
                    f'<i class="{kind}">{escape(part, quote=False)}</i>' if kind else escape(part, quote=False)
                )
    made = [Markup("".join(row)) for row in rows]
    return made[: len(lines)] + [Markup("")] * (len(lines) - len(made))


def heated(lines: Sequence[str], path: Path, counters: Mapping[int, Line], whole: Mapping[str, float]) -> Markup:
    """The source with its counters at the left of each line: what share of the waiting, how many instructions, which waste.

    ``whole`` are the sums over every line of the kernel, those of included files too.
    """
    columns = source_lines.shown_columns(counters.values())
    heads = joined(
        *(
            element("th", column.title, scope="col", title=column.explained, class_=f"m m-{column.key}")
            for column in columns
        )
    )
    rows = []
    for number, code in enumerate(coloured(lines, path), 1):
        line = counters.get(number)
        share = (
            line.counters.get("stall_cycles", 0) / whole["stall_cycles"] if line and whole.get("stall_cycles") else 0.0
        )
        cells = joined(*(_cell(line, column, whole) for column in columns))
        degree = heat(share) if line else 0
        rows.append(
            f'<tr{f" data-heat={degree}" if degree else ""}>{cells}<td class="l">{number}</td><td class="x">{code or " "}</td></tr>'
        )
    head = f'<thead><tr>{heads}<th scope="col" class="l">line</th><th scope="col" class="x">{escape(path.name)}</th></tr></thead>'
    body = Markup(f'<table class="source">{head}<tbody>{"".join(rows)}</tbody></table>')
    return element("div", body, class_="scroll", tabindex="0")


def _cell(line: Line | None, column: Column, whole: Mapping[str, float]) -> Markup:
    value = line.counters.get(column.key, 0) if line is not None else 0
    kind = f"m m-{column.key}"
    if line is None or not value:
        return Markup(f'<td class="{kind}"></td>')
    share = value / whole[column.key]
    factor = source_lines.ratio(line, column)
    waste = (
        f' <b title="{times(factor)} the least that would do">{times(factor)}</b>'
        if factor and factor > WASTEFUL
        else ""
    )
    text = percent(share) if column.key == "stall_cycles" else count(value)
    tip = escape(f"{value:,.0f}: {percent(share)} of the kernel's")
    return Markup(f'<td class="{kind}" style="--share:{100 * share:.0f}%" title="{tip}">{text}{waste}</td>')


def difference(old: Sequence[str], new: Sequence[str], path: Path) -> Markup:
    """What changed, with ``CONTEXT`` lines around, changed words marked; side by side where there is room."""
    rows = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if number:
            rows.append('<tr class="gap"><td colspan="4">⋯</td></tr>')
        for tag, first, last, start, end in group:
            if tag == "equal":
                rows += [
                    _pair(a, old[a], b, new[b], "") for a, b in zip(range(first, last), range(start, end), strict=True)
                ]
            else:
                rows += _changed(old, new, range(first, last), range(start, end))
    return element(
        "div", Markup(f'<table class="diff"><tbody>{"".join(rows)}</tbody></table>'), class_="scroll", tabindex="0"
    )


def _changed(old: Sequence[str], new: Sequence[str], gone: range, come: range) -> Iterator[str]:
    for number in range(max(len(gone), len(come))):
        a = gone[number] if number < len(gone) else None
        b = come[number] if number < len(come) else None
        if a is None:
            yield _pair(None, "", b, new[come[number]], "change")
        elif b is None:
            yield _pair(a, old[a], None, "", "change")
        else:
            yield _pair(a, old[a], b, new[b], "change")


def _pair(a: int | None, left: str, b: int | None, right: str, kind: str) -> str:
    """One row: a line of the old file and one of the new, either of which may be missing."""
    before_, after = (escape(left, quote=False), escape(right, quote=False))
    if kind and a is not None and b is not None:
        before_, after = _words(left, right)
    gone = "gone" if kind and a is not None else "none" if a is None else ""
    come = "come" if kind and b is not None else "none" if b is None else ""
    shown = [str(each + 1) if each is not None else "" for each in (a, b)]
    return (
        f'<tr{f" class={kind}" if kind else ""}><td class="l {gone}">{shown[0]}</td><td class="x {gone}">{before_ or " "}</td>'
        f'<td class="l {come}">{shown[1]}</td><td class="x {come}">{after or " "}</td></tr>'
    )


def _words(left: str, right: str) -> tuple[str, str]:
    """Both lines with the words that differ marked, unless hardly anything is the same."""
    a, b = _WORDS.findall(left), _WORDS.findall(right)
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    if difflib.SequenceMatcher(None, left.split(), right.split(), autojunk=False).ratio() < ALIKE:
        return escape(left, quote=False), escape(right, quote=False)
    parts: tuple[list[str], list[str]] = ([], [])
    for tag, first, last, start, end in matcher.get_opcodes():
        for side, text, mark in ((0, "".join(a[first:last]), "del"), (1, "".join(b[start:end]), "ins")):
            if text:
                told = escape(text, quote=False)
                parts[side].append(told if tag == "equal" or not text.strip() else f"<{mark}>{told}</{mark}>")
    return "".join(parts[0]), "".join(parts[1])
