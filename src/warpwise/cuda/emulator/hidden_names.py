"""Parameters, local variables and members that have the name of a built-in variable, such as `int gridDim`.

In include/ww the built-in variables are macros, which no declaration can hide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpwise.cuda.source.lexer import Token, closing

BUILT_IN = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
_NO_TYPES = frozenset({"return", "else", "case", "throw", "do", "goto", "sizeof", "delete", "co_return", "co_yield"})
_MEMBER = (".", "->")


def hidden_names(code: Sequence[Token]) -> Iterator[Token]:
    """The tokens of ``code``, without comments and directives, that name such a declaration."""
    found: set[int] = set()
    members: set[str] = set()
    for index, token in enumerate(code):
        if token.text not in BUILT_IN or not _declares(code, index):
            continue
        opening = _enclosing(code, index)
        if opening is None:
            continue
        members.add(token.text)
        found |= {
            at
            for at in range(index, _end_of_scope(code, opening))
            if code[at].text == token.text and code[at - 1].text not in (*_MEMBER, "::")
        }
    found |= {at for at, token in enumerate(code) if at and token.text in members and code[at - 1].text in _MEMBER}
    return (code[at] for at in sorted(found))


def _declares(code: Sequence[Token], index: int) -> bool:
    """True if a type comes before the name, and what follows a declared name after it."""
    if index < 1 or index + 1 == len(code) or code[index + 1].text not in (",", ")", "=", ";", "[", "{", ":"):
        return False
    before = index - 1
    while before and code[before].text in ("*", "&"):  # unary * and & do not apply to built-in variables
        before -= 1
    word = code[before]
    return word.text == ">" or (word.kind == "identifier" and word.text not in _NO_TYPES)


def _enclosing(code: Sequence[Token], index: int) -> int | None:
    """The index of the last bracket that is open at ``index``."""
    depth = 0
    for at in range(index - 1, -1, -1):
        if code[at].text in (")", "}", "]"):
            depth += 1
        elif code[at].text in ("(", "{", "["):
            if not depth:
                return at
            depth -= 1
    return None


def _end_of_scope(code: Sequence[Token], opening: int) -> int:
    """The end of a block, or of the function or statement whose parentheses open at ``opening``."""
    close = closing(code, opening)
    if code[opening].text != "(":
        return close
    for at in range(close, len(code)):
        if code[at].text == "{":
            return closing(code, at)
        if code[at].text == ";":
            return at
    return len(code)
