"""The declarations of a CUDA source at namespace and class scope, and which of them a kernel needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from warpwise.cuda.lexer import Token, closing, closing_angle, lex

_RECORDS = frozenset({"struct", "class", "union", "enum"})
_ATTRIBUTES = frozenset(
    "alignas __align__ __attribute__ __declspec decltype noexcept explicit __launch_bounds__ __cluster_dims__ "
    "__maxnreg__ __block_size__ requires sizeof throw".split()
)
_DEVICE_WORDS = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__"})
_DEVICE_MACRO = re.compile(r"\b(?:__device__|__global__)\b")
_FOREIGN_DEVICE_MACRO = re.compile(r"[A-Z][A-Z0-9_]*DEVICE[A-Z0-9_]*|HD|HDINLINE")
_HOST_NAMESPACES = frozenset({"torch", "at", "c10", "pybind11", "py", "thrust", "chrono", "std::chrono"})


@dataclass
class Macro:
    """An object-like or function-like ``#define``; ``body`` is what follows its name and parameters."""

    name: str
    function: bool
    body: str
    words: frozenset[str]


@dataclass
class Declaration:
    """One declaration: ``kind`` is function, record, enum, alias, variable, using or other.

    ``tokens`` holds all of it without comments and directives; ``tokens[:head]`` is what precedes a body,
    ``tokens[body[0]]`` and ``tokens[body[1]]`` are the braces of a function's or record's body.
    """

    kind: str
    tokens: list[Token]
    head: int
    names: frozenset[str]
    scope: tuple[str, ...] = ()
    body: tuple[int, int] | None = None
    parameters: tuple[int, int] | None = None
    device: bool = False
    kernel: bool = False
    words: frozenset[str] = field(default_factory=frozenset)

    @property
    def start(self) -> int:
        return self.tokens[0].start

    @property
    def end(self) -> int:
        return self.tokens[-1].end

    @property
    def name(self) -> str:
        """A function's own name, with its namespaces."""
        if self.parameters is None:
            return ""
        return "::".join((*self.scope, _function_name(self.tokens, self.parameters[0])))


def significant(tokens: Iterable[Token]) -> list[Token]:
    """Tokens that carry structure: no comments, no directives, no `#if 0`, one branch of a conditional that opens braces.

    Both branches of an `#if` stay where each is balanced; where the first is not (two heads of one body), only it stays.
    """
    kept: list[Token] = []
    frames: list[list[int]] = []  # of each open #if: the brace depth before it, and whether tokens are dropped now
    depth = 0
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
        elif token.kind != "comment" and not any(frame[1] for frame in frames):
            if token.text == "{":
                depth += 1
            elif token.text == "}":
                depth -= 1
            kept.append(token)
    return kept


def macros(tokens: Iterable[Token]) -> dict[str, Macro]:
    """The `#define`s among ``tokens``, the bodies of several of one name together."""
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


def device_macros(defined: dict[str, Macro]) -> frozenset[str]:
    """Names of the macros that expand, directly or through others, to __device__ or __global__."""
    device = {name for name, macro in defined.items() if _DEVICE_MACRO.search(macro.body)}
    while True:
        more = {name for name, macro in defined.items() if name not in device and macro.words & device}
        if not more:
            return frozenset(device)
        device |= more


def _skip_template(tokens: Sequence[Token], index: int) -> int:
    while index + 1 < len(tokens) and tokens[index].text == "template" and tokens[index + 1].text == "<":
        end = closing_angle(tokens, index + 1)
        if end is None:
            break
        index = end + 1
    return index


def _function_name(tokens: Sequence[Token], opening: int) -> str:
    """The name before the parameter list that opens at ``opening``, without template arguments and qualifiers."""
    index = opening - 1
    if tokens[index].text == ">":
        depth = 0
        while index >= 0:
            depth += {">": 1, "<": -1}.get(tokens[index].text, 0)
            index -= 1
            if depth == 0:
                break
    for back in range(index, max(index - 4, -1), -1):
        if tokens[back].text == "operator":
            return "operator" + "".join(t.text for t in tokens[back + 1 : opening])
    return tokens[index].text if index >= 0 else ""


def _parameters(tokens: Sequence[Token], head: int, device_words: frozenset[str]) -> tuple[int, int] | None:
    """Where a function's parameter list opens and closes within ``tokens[:head]``."""
    index = _skip_template(tokens, 0)
    while index < head:
        token = tokens[index]
        if token.text == "(":
            end = closing(tokens, index)
            before = tokens[index - 1] if index else None
            operator_call = before is not None and before.text == "operator"
            named = before is not None and (
                (before.kind == "identifier" and before.text not in _ATTRIBUTES and before.text not in device_words)
                or before.text == ">"
                or any(t.text == "operator" for t in tokens[max(0, index - 3) : index])
            )
            if named and not operator_call:
                return index, min(end, len(tokens) - 1)
            index = end
        elif token.text == "<" and index and tokens[index - 1].kind == "identifier":
            index = closing_angle(tokens, index) or index
        elif token.text == "=" and not (index and tokens[index - 1].text == "operator"):
            return None
        index += 1
    return None


def _record_names(tokens: Sequence[Token], head: int, body_end: int | None) -> frozenset[str]:
    """The tag before the body, a base clause or a specialisation, and whatever is declared after the body."""
    names: set[str] = set()
    index = next((i for i in range(_skip_template(tokens, 0), head) if tokens[i].text in _RECORDS), head)
    while index < head and tokens[index].text not in (":", "<", "="):
        token = tokens[index]
        if token.text == "(":
            index = closing(tokens, index)
        elif token.kind == "identifier" and token.text not in _RECORDS | _ATTRIBUTES and token.text != "final":
            names.add(token.text)
        index += 1
    if body_end is not None:
        names.update(t.text for t in tokens[body_end + 1 :] if t.kind == "identifier")
    return frozenset(names)


def _variable_names(tokens: Sequence[Token]) -> frozenset[str]:
    """Identifiers that an initialiser, a bound, a comma or the end follows, outside all brackets."""
    names: set[str] = set()
    index = _skip_template(tokens, 0)
    while index < len(tokens):
        token = tokens[index]
        if token.text in ("(", "[", "{"):
            index = closing(tokens, index)
        elif token.text == "<" and index and tokens[index - 1].kind == "identifier":
            index = closing_angle(tokens, index) or index
        elif token.text == "=":  # an initialiser, up to the next declarator
            while index + 1 < len(tokens) and tokens[index + 1].text not in (",", ";"):
                index = closing(tokens, index + 1) if tokens[index + 1].text in ("(", "[", "{") else index + 1
        elif token.kind == "identifier" and token.text not in _ATTRIBUTES and index + 1 < len(tokens):
            if tokens[index + 1].text in ("=", "[", "{", ",", ";", "(", ":"):
                names.add(token.text)
        index += 1
    return frozenset(names)


class _Parser:
    def __init__(self, tokens: list[Token], defined: dict[str, Macro]) -> None:
        self.tokens = tokens
        self.defined = defined
        self.device_words = device_macros(defined) | _DEVICE_WORDS
        self.found: list[Declaration] = []

    def scope(self, index: int, end: int, names: tuple[str, ...], record: bool = False) -> None:
        """Read the declarations of tokens[index:end]."""
        tokens = self.tokens
        while index < end:
            text = tokens[index].text
            if text in (";", "}"):
                index += 1
                continue
            if record and text in ("public", "private", "protected") and index + 1 < end and tokens[index + 1].text == ":":
                index += 2
                continue
            opened = self._opens_scope(index, end)
            if opened is not None:
                brace, inner = opened
                close = min(closing(tokens, brace), end)
                self.scope(brace + 1, close, (*names, *inner))
                index = close + 1
                continue
            index = self._declaration(index, end, names)

    def _opens_scope(self, index: int, end: int) -> tuple[int, tuple[str, ...]] | None:
        """For `namespace a::b {` or `extern "C" {`: where its brace is and the names it adds."""
        tokens = self.tokens
        if tokens[index].text == "extern" and index + 2 < end and tokens[index + 1].kind == "string":
            return (index + 2, ()) if tokens[index + 2].text == "{" else None
        if tokens[index].text == "inline" and index + 1 < end and tokens[index + 1].text == "namespace":
            index += 1
        if tokens[index].text != "namespace":
            return None
        inner: list[str] = []
        for position in range(index + 1, end):
            token = tokens[position]
            if token.text == "{":
                return position, tuple(inner)
            if token.text in (";", "="):
                return None
            if token.kind == "identifier" and token.text != "inline":
                inner.append(token.text)
        return None

    def _declaration(self, start: int, end: int, names: tuple[str, ...]) -> int:
        """Read one declaration that begins at ``start``; returns the index after it."""
        tokens = self.tokens
        index = start
        assigned = False
        body: tuple[int, int] | None = None
        call_end = self._macro_call(start, end)
        if call_end is not None:
            self._add(start, call_end, None, names)
            return call_end + 1
        while index < end:
            text = tokens[index].text
            if text == ";":
                break
            if text in ("(", "["):
                index = closing(tokens, index)
            elif text == "template" and index + 1 < end and tokens[index + 1].text == "<":
                index = _skip_template(tokens, index) - 1
            elif text == "=" and tokens[index - 1].text != "operator":
                assigned = True
            elif text == "{":
                close = min(closing(tokens, index), end - 1)
                head = tokens[start:index]
                if not assigned and body is None and self._is_record(head):
                    body = (index, close)
                elif not assigned and body is None and self._is_body(head):
                    self._add(start, close, (index, close), names)
                    return close + 1
                index = close
            elif text == "}":
                break
            index += 1
        self._add(start, min(index, end - 1), body, names)
        return index + 1

    def _macro_call(self, start: int, end: int) -> int | None:
        """The end of `MACRO(...)` that stands alone, with no semicolon, before another declaration."""
        tokens = self.tokens
        macro = self.defined.get(tokens[start].text)
        if macro is None or not macro.function or start + 1 >= end or tokens[start + 1].text != "(":
            return None
        close = closing(tokens, start + 1)
        if close + 1 < end and tokens[close + 1].kind != "identifier":
            return close + 1 if tokens[close + 1].text == ";" else None
        return min(close, end - 1)

    @staticmethod
    def _is_record(head: Sequence[Token]) -> bool:
        index = _skip_template(head, 0)
        seen = False
        while index < len(head):
            text = head[index].text
            if text in _RECORDS:
                seen = True
            elif text == "(" and not (index and head[index - 1].text in (*_ATTRIBUTES, "(")):
                return False
            elif text in ("(", "["):
                index = closing(head, index)
            elif text == "<" and index and head[index - 1].kind == "identifier":
                index = closing_angle(head, index) or index
            index += 1
        return seen

    def _is_body(self, head: Sequence[Token]) -> bool:
        parameters = _parameters(head, len(head), self.device_words)
        if parameters is None:
            return False
        after = head[parameters[1] + 1 :]
        if not after or after[0].text != ":":
            return True
        # In `X() : a{1}, b(2) {` a brace after a name initialises a member; the body follows ) or }.
        return after[-1].text in (")", "}")

    def _add(self, start: int, last: int, body: tuple[int, int] | None, names: tuple[str, ...]) -> None:
        tokens = self.tokens[start : last + 1]
        inner = (body[0] - start, body[1] - start) if body else None
        head = inner[0] if inner else len(tokens)
        first = tokens[_skip_template(tokens, 0) : head] or tokens
        words = frozenset(token.text for token in tokens if token.kind == "identifier")
        declared, kind, parameters = frozenset[str](), "other", None
        if first[0].text == "using":
            aliased = len(first) > 2 and any(t.text == "=" for t in first[:8])
            kind = "alias" if aliased else "using"
            declared = frozenset({first[1].text}) if aliased else frozenset({first[-2].text if len(first) > 1 else ""})
        elif first[0].text == "namespace":
            kind, declared = "alias", frozenset({first[1].text})
        elif first[0].text == "typedef":
            kind = "alias"
            after = inner[1] + 1 if inner else 1
            declared = _variable_names(tokens[after:]) | _record_names(tokens, head, None)
            declared |= frozenset(
                tokens[i + 1].text for i in range(after, len(tokens) - 2) if tokens[i].text == "*" and tokens[i - 1].text == "("
            )
        elif first[0].text == "static_assert":
            kind = "assertion"
        elif self._is_record(tokens[:head]) and (inner or len(first) <= 4):
            kind = "enum" if any(t.text == "enum" for t in first) else "record"
            declared = _record_names(tokens, head, inner[1] if inner else None)
            if kind == "enum" and inner:
                declared |= frozenset(t.text for t in tokens[inner[0] : inner[1]] if t.kind == "identifier")
        else:
            parameters = _parameters(tokens, head, self.device_words)
            if parameters is not None and (inner or not any(t.text == "=" for t in first)):
                kind = "function"
                name = _function_name(tokens, parameters[0])
                at = next((i for i in range(parameters[0] - 1, 0, -1) if tokens[i].text == name), 0)
                qualifier = {tokens[at - 2].text} if at > 1 and tokens[at - 1].text == "::" else set()
                declared = frozenset({name} | qualifier)
            else:
                kind, declared, parameters = "variable", _variable_names(tokens), None
        marks = tokens[:head] if kind == "function" else tokens
        device = any(t.text in self.device_words or _FOREIGN_DEVICE_MACRO.fullmatch(t.text) for t in marks)
        kernel = kind == "function" and any(t.text == "__global__" for t in marks)
        self.found.append(
            Declaration(kind, tokens, head, declared, names, inner, parameters, device, kernel, words - declared)
        )


def declarations(tokens: list[Token], defined: dict[str, Macro], *, record: bool = False) -> list[Declaration]:
    """The declarations among significant ``tokens``, namespaces entered, in source order."""
    parser = _Parser(tokens, defined)
    parser.scope(0, len(tokens), (), record)
    return parser.found


def _always(declaration: Declaration) -> bool:
    if declaration.kind == "using":
        words = [t.text for t in declaration.tokens if t.kind == "identifier"]
        return not _HOST_NAMESPACES.intersection(words)
    return False


def needed(found: Sequence[Declaration], defined: dict[str, Macro], roots: Iterable[str]) -> set[int]:
    """Indices of the declarations that ``roots`` (names) need: what they mention, what that mentions, and so on.

    A function that is neither device code nor constexpr is never needed. Operators come with the types they take.
    """
    by_name: dict[str, list[int]] = {}
    for index, declaration in enumerate(found):
        for name in declaration.names:
            by_name.setdefault(name, []).append(index)
    kept = {index for index, declaration in enumerate(found) if _always(declaration)}
    seen: set[str] = set()
    pending = set(roots)

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
            for index in by_name.get(name, ()):
                if index not in kept and usable(found[index]):
                    kept.add(index)
                    pending |= found[index].words
        left_out = {n for i, d in enumerate(found) if i not in kept for n in d.names} - {
            n for i in kept for n in found[i].names
        }
        for index, declaration in enumerate(found):
            operator = declaration.kind == "function" and "operator" in declaration.words and usable(declaration)
            if index in kept or not (operator or declaration.kind == "assertion"):
                continue
            mentioned = {t.text for t in declaration.tokens[: declaration.head] if t.kind == "identifier"}
            if not (mentioned - declaration.names) & left_out:
                kept.add(index)
                pending |= declaration.words
        if not pending - seen:
            return kept
