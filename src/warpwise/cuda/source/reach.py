"""The declarations that a kernel needs, found by the names that each declaration mentions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpwise.cuda.source.declarations import Declaration
from warpwise.cuda.source.directives import Macro
from warpwise.cuda.source.lexer import Token, closing, lex

_HOST_NAMESPACES = frozenset({"torch", "at", "c10", "pybind11", "py", "thrust", "chrono", "std::chrono"})


def _introduced(declaration: Declaration) -> set[str]:
    """The names that a using-declaration introduces, ``{"B", "D"}`` for ``using A::B, C::D;``; empty if unknown."""
    tokens = [t.text for t in declaration.tokens]
    if "namespace" in tokens or "operator" in tokens:
        return set()
    return {tokens[i - 1] for i in range(1, len(tokens)) if tokens[i] in (",", ";")}


def _may_be_kept(declaration: Declaration) -> bool:
    return not _HOST_NAMESPACES.intersection(t.text for t in declaration.tokens if t.kind == "identifier")


def _called_unevaluated(tokens: Sequence[Token]) -> set[str]:
    """The functions that ``tokens`` call in the operand of sizeof, decltype or noexcept, where no call is made."""
    names = set()
    for index, token in enumerate(tokens[:-1]):
        if token.text not in ("sizeof", "decltype", "noexcept"):
            continue
        first = index + 1
        while first + 1 < len(tokens) and tokens[first].kind == "identifier" and tokens[first + 1].text == "::":
            first += 2
        if first + 1 < len(tokens) and tokens[first].kind == "identifier":  # sizeof f(x)
            first += 1
        if first >= len(tokens) or tokens[first].text != "(":
            continue
        for at in range(index + 1, min(closing(tokens, first), len(tokens))):
            called = tokens[at].kind == "identifier" and tokens[at + 1 : at + 2] and tokens[at + 1].text in ("(", "<")
            if called and tokens[at - 1].text not in (".", "->"):
                names.add(tokens[at].text)
    return names


def needed(found: Sequence[Declaration], defined: dict[str, Macro], roots: Iterable[str]) -> set[int]:
    """Indices of the declarations that ``roots`` (names) mention, directly or through other declarations.

    A function that is neither device code nor constexpr is not included, unless it has no body and is called only to
    find the type of its result, in sizeof or decltype. An operator is included with its operand types, a
    using-declaration with the names that it introduces.
    """
    by_name: dict[str, list[int]] = {}
    for index, declaration in enumerate(found):
        for name in declaration.names:
            by_name.setdefault(name, []).append(index)
    using = {i: _introduced(d) for i, d in enumerate(found) if d.kind == "using" and _may_be_kept(d)}
    kept = {index for index, names in using.items() if not names}
    seen: set[str] = set()
    pending = set(roots)
    unevaluated: set[str] = set()

    def keep(index: int) -> None:
        kept.add(index)
        pending.update(found[index].words | found[index].names)
        mention(_called_unevaluated(found[index].tokens))

    def mention(names: set[str]) -> None:
        """Keep the prototypes of host functions that are called for the type of their result only."""
        for name in names - unevaluated:
            unevaluated.add(name)
            for index in by_name.get(name, ()):
                prototype = found[index].kind == "function" and found[index].body is None
                if index not in kept and prototype and _may_be_kept(found[index]):
                    keep(index)

    def usable(declaration: Declaration) -> bool:
        constant = any(t.text in ("constexpr", "consteval") for t in declaration.tokens[: declaration.head])
        return declaration.kind != "function" or declaration.device or constant

    while True:
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in defined:
                pending |= defined[name].words
                mention(_called_unevaluated(lex(defined[name].body, directives=False)))
            for index in by_name.get(name, ()):
                if index not in kept and usable(found[index]):
                    keep(index)
        for index, names in using.items():
            if index not in kept and names & seen:
                kept.add(index)
                pending |= names
        types = [(i, d) for i, d in enumerate(found) if d.kind in ("record", "enum", "alias")]
        left_out = {n for i, d in types if i not in kept for n in d.names} - {n for i in kept for n in found[i].names}
        for index, declaration in enumerate(found):
            operator = declaration.kind == "function" and "operator" in declaration.words and usable(declaration)
            if index in kept or not (operator or declaration.kind == "assertion"):
                continue
            mentioned = {t.text for t in declaration.tokens[: declaration.head] if t.kind == "identifier"}
            if not (mentioned - declaration.names) & left_out:
                kept.add(index)
                pending |= declaration.words
                mention(_called_unevaluated(declaration.tokens))
        if not pending - seen:
            return kept
