"""C++ tokens, to the extent that reading and rewriting CUDA source needs them. Offsets refer to the original text."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Token(NamedTuple):
    """``kind`` is identifier, number, string, character, punctuation, comment or directive.

    A directive is a whole preprocessor line with its continuations. ``text`` is the source from ``start`` to ``end``.
    """

    kind: str
    text: str
    start: int
    end: int


# Names and single characters, most of all tokens, come first. R, L, u or U may begin a string: `word` follows strings.
_TOKEN = re.compile(
    r"""
    \s* (?: \\\r?\n\s* )*
    (?: (?P<identifier>   (?: [A-KM-QSTV-Za-tv-z_$] | [LRUu](?!8?R?["']) ) [\w$]* )
      | (?P<single>       [(){}\[\];,=*&+!?|%^~>] )
      | (?P<comment>      //(?:\\\r?\n|[^\n])* | /\*[\s\S]*?(?:\*/|\Z) )
      | (?P<raw>          (?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\([\s\S]*?\)(?P=fence)" )
      | (?P<string>       (?:u8|[uUL])?"(?:\\[\s\S]|[^"\\\n])*" )
      | (?P<character>    (?:u8|[uUL])?'(?:\\[^\n]|[^'\\\n])+' )
      | (?P<number>       \.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])* )
      | (?P<word>         [A-Za-z_$][\w$]* )
      | (?P<punctuation>  <<<|::|->|\.\.\.|\#\#|[^\s] )
      | (?P<end>          \Z )
    )
    """,
    re.VERBOSE,
)
_KINDS = {"single": "punctuation", "word": "identifier", "raw": "string", "fence": "string"}
_DIRECTIVE = re.compile(r'#(?:/\*[\s\S]*?\*/|//(?:\\\r?\n|[^\n])*|"(?:\\.|[^"\\\n])*"|\\\r?\n|[^\n])*')


def lex(text: str, *, directives: bool = True) -> list[Token]:
    """The tokens of ``text``; with ``directives`` false a '#' is punctuation (for the body of a macro)."""
    return list(_of_unit(text)) if directives else _lexed(text, directives)


@functools.lru_cache(maxsize=4)  # a translation unit is read several times before it is compiled
def _of_unit(text: str) -> tuple[Token, ...]:
    return tuple(_lexed(text, True))


def _lexed(text: str, directives: bool) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while True:
        for found in _TOKEN.finditer(text, position):
            kind = found.lastgroup or ""
            start, end = found.span("raw" if kind == "fence" else kind)
            if kind == "end":
                return tokens
            if directives and text[start] == "#" and _begins_line(text, start, tokens):
                directive = _DIRECTIVE.match(text, start)
                position = directive.end() if directive else end
                tokens.append(Token("directive", text[start:position], start, position))
                break
            tokens.append(Token(_KINDS.get(kind, kind), text[start:end], start, end))


def _begins_line(text: str, start: int, before: Sequence[Token]) -> bool:
    """True if there are only comments between the beginning of a line and ``start``: `/* x */ #define Y`."""
    for token in reversed(before):
        if "\n" in text[token.end : start]:
            return True
        if token.kind != "comment":
            return False
        start = token.start
    return True


def closing(tokens: Sequence[Token], index: int) -> int:
    """The index of the bracket that closes the one at ``index``, or ``len(tokens)`` if there is none."""
    depth = 0
    for position in range(index, len(tokens)):
        token = tokens[position]
        if token.kind == "punctuation":
            if token.text in "([{":
                depth += 1
            elif token.text in ")]}":
                depth -= 1
                if depth == 0:
                    return position
    return len(tokens)


def closing_angle(tokens: Sequence[Token], index: int) -> int | None:
    """The index of the '>' that closes the template list opened by the '<' at ``index``, or None if the '<' is a
    less-than.
    """
    depth, position = 0, index
    while position < len(tokens):
        text = tokens[position].text
        if text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
            if depth == 0:
                return position
        elif text in ("(", "[", "{"):
            position = closing(tokens, position)
        elif text in (";", ")", "]", "}"):
            return None
        position += 1
    return None


def split(tokens: Sequence[Token], separator: str = ",") -> list[list[Token]]:
    """Split at each ``separator`` outside all brackets and template argument lists."""
    parts: list[list[Token]] = [[]]
    position = 0
    while position < len(tokens):
        token = tokens[position]
        end = position
        if token.kind == "punctuation":
            if token.text in "([{":
                end = min(closing(tokens, position), len(tokens) - 1)
            elif token.text == "<" and position and tokens[position - 1].kind == "identifier":
                end = closing_angle(tokens, position) or position
            elif token.text == separator:
                parts.append([])
                position += 1
                continue
        parts[-1].extend(tokens[position : end + 1])
        position = end + 1
    return parts


class Lines:
    """Line numbers of a text, following `#line 3 "f.cu"` and the preprocessor's `# 3 "f.cu"`."""

    _MARKER = re.compile(r'^[ \t]*#[ \t]*(?:line[ \t]+)?(\d+)(?:[ \t]+"((?:\\.|[^"\\\n])*)")?', re.MULTILINE)

    def __init__(self, text: str, file: str = "") -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._marks: list[tuple[int, int, str]] = [(0, 1, file)]  # physical line, its number, its file
        for match in self._MARKER.finditer(text):
            physical = bisect_right(self._starts, match.start())
            self._marks.append((physical, int(match[1]), match[2] or self._marks[-1][2]))

    def at(self, offset: int) -> tuple[str, int]:
        """The file and line (from 1) of the character at ``offset``."""
        physical = bisect_right(self._starts, offset) - 1
        mark = self._marks[bisect_right(self._marks, physical, key=lambda item: item[0]) - 1]
        return mark[2], mark[1] + physical - mark[0]


def blank(text: str) -> str:
    """``text`` with every character except line ends replaced by a space."""
    return re.sub(r"[^\n]", " ", text)
