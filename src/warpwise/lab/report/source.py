"""A rung's source with the counters of each line, and its difference from the rung before."""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pygments
from markupsafe import Markup

from warpwise import cache
from warpwise.lab.explain.model import source_lines
from warpwise.lab.explain.model.explanation import Line
from warpwise.lab.explain.model.source_lines import Column
from warpwise.lab.explain.render.format import count, heat, percent, times
from warpwise.lab.report.html import render
from warpwise.operation import Op, Rung

WASTEFUL = 1.05
FORMAT = 1  # version of the cached pieces
CONTEXT = 3  # context lines around a change
ALIKE = 0.5  # similarity of two lines from which their words are compared
Pieces = list[tuple[str, str]]  # of a line: (mark, text)
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


def source_of(rung: Rung) -> list[str]:
    """The lines of a rung's file; empty if it does not exist."""
    return rung.source.read_text("utf-8", "replace").splitlines() if rung.source.is_file() else []


def before(op: Op, rung: Rung) -> Rung | None:
    """The rung to compare with: the nearest one before it in the same language and another file, or None."""
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
        (Token.Comment.Preproc, "p"),
        (Token.Comment.PreprocFile, "s"),
        (Token.Comment, "c"),
        (Token.Literal.String.Doc, "c"),
        (Token.Keyword, "k"),
        (Token.Name.Builtin, "k"),
        (Token.Name.Decorator, "p"),
        (Token.Literal.String, "s"),
        (Token.Literal.Number, "n"),
    )
    lexer = {".py": PythonLexer, ".c": CLexer}.get(path.suffix, CppLexer)(stripnl=False, ensurenl=False)
    for token, value in lexer.get_tokens(text):
        yield next((name for group, name in kinds if token in group), ""), value


def coloured(lines: Sequence[str], path: Path) -> list[Pieces]:
    """Each line as pieces with the CSS class of their kind: comment, keyword, string, number, directive, or "".

    The pieces are kept in the cache.
    """
    file = cache.cache_dir() / "sources" / f"{cache.key(FORMAT, pygments.__version__, path.suffix, *lines)}.bin"
    kept = cache.load(file)
    if kept is None:
        kept = json.dumps(_coloured(lines, path)).encode()
        cache.save(file, kept)
    return [[(kind, text) for kind, text in row] for row in json.loads(kept)]


def _coloured(lines: Sequence[str], path: Path) -> list[Pieces]:
    rows: list[Pieces] = [[]]
    for kind, value in _tokens("\n".join(lines), path):
        for number, part in enumerate(value.split("\n")):
            if number:
                rows.append([])
            if part:
                rows[-1].append((kind, part))
    return rows[: len(lines)] + [[] for _ in range(len(lines) - len(rows))]


def heated(lines: Sequence[str], path: Path, counters: Mapping[int, Line], whole: Mapping[str, float]) -> Markup:
    """The source, with the counters of each line at its left: share of stall cycles, instructions, sectors and
    wavefronts.

    ``whole`` are the sums over every line of the kernel, those of included files too.
    """
    columns = source_lines.shown_columns(counters.values())
    rows = []
    for number, tokens in enumerate(coloured(lines, path), 1):
        line = counters.get(number)
        stalls = line.counters.get("stall_cycles", 0) if line else 0
        degree = heat(stalls / whole["stall_cycles"]) if stalls and whole.get("stall_cycles") else 0
        cells = [_cell(line, column, whole) for column in columns]
        rows.append({"number": number, "tokens": tokens, "heat": degree, "cells": cells})
    return render("source.html", columns=columns, rows=rows, file=path.name)


def _cell(line: Line | None, column: Column, whole: Mapping[str, float]) -> dict[str, str]:
    value = line.counters.get(column.key, 0) if line is not None else 0
    if line is None or not value:
        return {"key": column.key, "text": ""}
    share = value / whole[column.key]
    factor = source_lines.ratio(line, column)
    return {
        "key": column.key,
        "text": percent(share) if column.key == "stall_cycles" else count(value),
        "share": f"{100 * share:.0f}",
        "tip": f"{value:,.0f}: {percent(share)} of the kernel's",
        "waste": times(factor) if factor and factor > WASTEFUL else "",
    }


def difference(old: Sequence[str], new: Sequence[str], path: Path) -> Markup:
    """The changed lines with ``CONTEXT`` lines around, side by side, with changed words marked."""
    rows: list[dict[str, Any] | None] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if number:
            rows.append(None)
        for tag, first, last, start, end in group:
            gone, come = range(first, last), range(start, end)
            for a, b in itertools.zip_longest(gone, come):
                left, right = old[a] if a is not None else "", new[b] if b is not None else ""
                rows.append(_pair(a, left, b, right, tag != "equal"))
    return render("difference.html", rows=rows)


def _pair(a: int | None, left: str, b: int | None, right: str, changed: bool) -> dict[str, Any]:
    """One row: a line of the old file and one of the new, either of which may be missing."""
    both = changed and a is not None and b is not None
    before_, after = _words(left, right) if both else ([("", left)], [("", right)])
    return {
        "changed": changed,
        "before": before_,
        "after": after,
        "old": a + 1 if a is not None else "",
        "new": b + 1 if b is not None else "",
        "gone": "none" if a is None else "gone" if changed else "",
        "come": "none" if b is None else "come" if changed else "",
    }


def _words(left: str, right: str) -> tuple[Pieces, Pieces]:
    """Both lines as pieces marked "del", "ins" or ""; unmarked if the lines share few words."""
    a, b = _WORDS.findall(left), _WORDS.findall(right)
    if difflib.SequenceMatcher(None, left.split(), right.split(), autojunk=False).ratio() < ALIKE:
        return [("", left)], [("", right)]
    parts: tuple[Pieces, Pieces] = ([], [])
    for tag, first, last, start, end in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for side, text, mark in ((0, "".join(a[first:last]), "del"), (1, "".join(b[start:end]), "ins")):
            if text:
                parts[side].append(("" if tag == "equal" or not text.strip() else mark, text))
    return parts
