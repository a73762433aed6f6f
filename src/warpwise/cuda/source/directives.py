"""Preprocessor directives of a source: the macros they define, and the tokens that remain after conditionals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from warpwise.cuda.source.lexer import Token, lex


@dataclass
class Macro:
    """An object-like or function-like ``#define``; ``body`` is its replacement text."""

    name: str
    function: bool
    body: str
    words: frozenset[str]


def macros(tokens: Iterable[Token]) -> dict[str, Macro]:
    """The `#define`s among ``tokens``, by name. The bodies of several definitions of one name are joined."""
    found: dict[str, Macro] = {}
    for token in tokens:
        if token.kind != "directive":
            continue
        define = re.match(r"#\s*define\s+(\w+)(\([^)]*\))?([\s\S]*)", token.text)
        if define:
            words = frozenset(t.text for t in lex(define[3], directives=False) if t.kind == "identifier")
            old = found.get(define[1])
            body = define[3].strip() if old is None else old.body + " " + define[3].strip()
            found[define[1]] = Macro(define[1], bool(define[2]), body, words | (old.words if old else frozenset()))
    return found


def expanding(defined: dict[str, Macro], words: frozenset[str]) -> frozenset[str]:
    """Names of the macros that expand, directly or through others, to one of ``words``."""
    found: set[str] = set()
    while True:
        more = {name for name, macro in defined.items() if name not in found and macro.words & (words | found)}
        if not more:
            return frozenset(found)
        found |= more


def significant(tokens: Iterable[Token]) -> list[Token]:
    """The tokens without comments, directives and `#if 0` blocks.

    Both branches of an `#if` are kept if the first one has balanced braces, else (two heads of one body) only the
    first.
    """
    kept: list[Token] = []
    # For each open #if: the brace depth before it, whether its tokens are dropped now, whether it begins as `#if 0`.
    frames: list[list[int]] = []
    depth, dropping = 0, False
    for token in tokens:
        if token.kind == "directive":
            word = re.match(r"#\s*(\w+)\s*([^\n]*)", token.text)
            if word is None:
                continue
            if word[1] in ("if", "ifdef", "ifndef"):
                dead = word[1] == "if" and re.match(r"(?:0|false)\s*(?:/[/*].*)?$", word[2]) is not None
                frames.append([depth, int(dead), int(dead)])
            elif word[1] in ("else", "elif") and frames:
                frames[-1][1] = 0 if frames[-1][2] else int(depth != frames[-1][0])
                frames[-1][2] = 0
            elif word[1] == "endif" and frames:
                frames.pop()
            dropping = any(frame[1] for frame in frames)
        elif token.kind != "comment" and not dropping:
            if token.text == "{":
                depth += 1
            elif token.text == "}":
                depth -= 1
            kept.append(token)
    return kept
