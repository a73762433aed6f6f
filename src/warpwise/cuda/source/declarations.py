"""The declarations of a CUDA source at namespace and class scope."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from warpwise.cuda.source.directives import Macro, expanding, macros, significant
from warpwise.cuda.source.lexer import Token, closing, closing_angle

__all__ = ["Declaration", "Macro", "declarations", "macros", "significant"]

_RECORDS = frozenset({"struct", "class", "union", "enum"})
_ATTRIBUTES = frozenset({
    "alignas", "__align__", "__attribute__", "__declspec", "decltype", "noexcept", "explicit", "__launch_bounds__",
    "__cluster_dims__", "__maxnreg__", "__block_size__", "requires", "sizeof", "throw",
})  # fmt: skip
_AFTER_PARAMETERS = frozenset({
    "const", "volatile", "noexcept", "override", "final", "throw", "try", "requires", "__attribute__", "asm",
})  # fmt: skip
_TYPES = frozenset({
    "void", "bool", "char", "short", "int", "long", "signed", "unsigned", "float", "double", "auto", "const",
    "volatile",
})  # fmt: skip
_DEVICE_WORDS = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__"})
_FOREIGN_DEVICE_MACRO = re.compile(r"[A-Z][A-Z0-9_]*DEVICE[A-Z0-9_]*|HD|HDINLINE")


@dataclass
class Declaration:
    """One declaration: ``kind`` is function, record, enum, alias, variable, using or other.

    ``tokens`` holds its tokens without comments and directives; ``tokens[:head]`` precedes the body;
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
        """A function's own name, with its namespaces, also those of a definition such as `void ns::scale(int n) {}`."""
        if self.parameters is None:
            return ""
        name = _function_name(self.tokens, self.parameters[0])
        return "::".join((*self.scope, *_qualifiers(self.tokens, self.parameters[0], name), name))


def _skip_template(tokens: Sequence[Token], index: int) -> int:
    while index + 1 < len(tokens) and tokens[index].text == "template" and tokens[index + 1].text == "<":
        end = closing_angle(tokens, index + 1)
        if end is None:
            break
        index = end + 1
    return index


def _after_operator(tokens: Sequence[Token], index: int) -> int:
    """The index of the last token of the operator name that begins with `operator` at ``index``: `operator+=`, ..."""
    end = index + 1
    while end < len(tokens) and tokens[end].text not in ("(", ";", "{"):
        end += 1
    if end == index + 1 and end + 1 < len(tokens) and tokens[end + 1].text == ")":  # operator()
        return end + 1
    return end - 1


def _function_name(tokens: Sequence[Token], opening: int) -> str:
    """The name before the parameter list that opens at ``opening``, without template arguments and qualifiers.

    Of `KERNEL(name)(parameters)`, where a macro declares the function, it is the last word of the macro's arguments.
    """
    index = opening - 1
    if tokens[index].text == ">":
        depth = 0
        while index >= 0:
            depth += {">": 1, "<": -1}.get(tokens[index].text, 0)
            index -= 1
            if depth == 0:
                break
    for back in range(opening - 1, max(opening - 6, -1), -1):
        if tokens[back].text == "operator":
            return "operator" + "".join(t.text for t in tokens[back + 1 : opening])
    if index > 0 and tokens[index].text == ")":
        index -= 1
    return tokens[index].text if index >= 0 else ""


def _qualifiers(tokens: Sequence[Token], opening: int, name: str) -> list[str]:
    """The namespaces before ``name``, the name of the function whose parameter list opens at ``opening``."""
    at = next((i for i in range(opening - 1, 0, -1) if tokens[i].text == name), 0)
    found: list[str] = []
    while at > 1 and tokens[at - 1].text == "::" and tokens[at - 2].kind == "identifier":
        at -= 2
        if tokens[at].text in _TYPES:  # `void ::scale()`
            break
        found.insert(0, tokens[at].text)
    return found


def _precedes_a_name(tokens: Sequence[Token], end: int, head: int) -> bool:
    """True if a name follows the bracket at ``end``: it closes the arguments of a macro, not a parameter list."""
    following = tokens[end + 1] if end + 1 < head else None
    return following is not None and following.kind == "identifier" and following.text not in _AFTER_PARAMETERS


def _parameters(tokens: Sequence[Token], head: int, device_words: frozenset[str]) -> tuple[int, int] | None:
    """The indices of the brackets of a function's parameter list within ``tokens[:head]``."""
    index = _skip_template(tokens, 0)
    operator = -2
    while index < head:
        token = tokens[index]
        if token.text == "operator":
            index = operator = _after_operator(tokens, index)
        elif token.text == "(":
            end = closing(tokens, index)
            before = tokens[index - 1] if index else None
            named = before is not None and (
                (before.kind == "identifier" and before.text not in _ATTRIBUTES and before.text not in device_words)
                or before.text == ">"
                or operator == index - 1
            )
            if named and not _precedes_a_name(tokens, end, head):
                return index, min(end, len(tokens) - 1)
            declares = before is not None and before.text in device_words - _DEVICE_WORDS  # KERNEL(name)(parameters)
            if declares and end + 1 < head and tokens[end + 1].text == "(":
                return end + 1, min(closing(tokens, end + 1), len(tokens) - 1)
            index = end
        elif token.text == "<" and index and tokens[index - 1].kind == "identifier":
            index = closing_angle(tokens, index) or index
        elif token.text == "=":
            return None
        index += 1
    return None


def _record_names(tokens: Sequence[Token], head: int, body_end: int | None) -> frozenset[str]:
    """The tag before the body, base clause or specialisation, and the names declared after the body."""
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
    """Identifiers outside all brackets that precede an initialiser, an array bound, a comma or the end."""
    names: set[str] = set()
    index = _skip_template(tokens, 0)
    while index < len(tokens):
        token = tokens[index]
        if token.text == "(" and index + 3 < len(tokens) and tokens[index + 1].text == "*":  # R (*name)(T)
            names.add(tokens[index + 2].text)
            index = closing(tokens, index)
        elif token.text in ("(", "[", "{"):
            index = closing(tokens, index)
        elif token.text == "<" and index and tokens[index - 1].kind == "identifier":
            name = tokens[index - 1].text
            index = closing_angle(tokens, index) or index
            if index + 1 < len(tokens) and tokens[index + 1].text in ("=", "{"):  # a specialisation of a template
                names.add(name)
        elif token.text == "=":  # an initialiser, up to the next declarator
            while index + 1 < len(tokens) and tokens[index + 1].text not in (",", ";"):
                index = closing(tokens, index + 1) if tokens[index + 1].text in ("(", "[", "{") else index + 1
        elif token.kind == "identifier" and token.text not in _ATTRIBUTES | _TYPES:
            following = tokens[index + 1].text if index + 1 < len(tokens) else ""
            if following == "(" and index + 2 < len(tokens) and tokens[index + 2].text == "*":
                following = ""  # the type of `R (*name)(T)`
            if following in ("=", "[", "{", ",", ";", "(", ":"):
                names.add(token.text)
        index += 1
    return frozenset(names)


class _Parser:
    def __init__(self, tokens: list[Token], defined: dict[str, Macro]) -> None:
        self.tokens = tokens
        self.defined = defined
        self.device_words = expanding(defined, frozenset({"__device__", "__global__"})) | _DEVICE_WORDS
        self.kernel_words = expanding(defined, frozenset({"__global__"})) | {"__global__"}
        self.found: list[Declaration] = []

    def scope(self, index: int, end: int, names: tuple[str, ...], record: bool = False) -> None:
        """Read the declarations of tokens[index:end]."""
        tokens = self.tokens
        while index < end:
            text = tokens[index].text
            if text in (";", "}"):
                index += 1
                continue
            if (
                record
                and text in ("public", "private", "protected")
                and index + 1 < end
                and tokens[index + 1].text == ":"
            ):
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
        """For `namespace a::b {` or `extern "C" {`: the index of its brace, and the namespaces it adds."""
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
            elif text == "operator":
                index = _after_operator(tokens, index)
            elif text == "template" and index + 1 < end and tokens[index + 1].text == "<":
                index = _skip_template(tokens, index) - 1
            elif text == "=":
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
        """The end of a `MACRO(...)` that is a declaration by itself, without a semicolon.

        A macro of another file is one in capitals before `template` or `namespace`.
        """
        tokens = self.tokens
        name = tokens[start].text
        if start + 1 >= end or tokens[start + 1].text != "(":
            return None
        macro = self.defined.get(name)
        close = closing(tokens, start + 1)
        if macro is None and name.isupper() and close + 1 < end and tokens[close + 1].text in ("template", "namespace"):
            return close
        if macro is None or not macro.function:
            return None
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
            if inner and any(t.text == "enum" for t in first):
                declared |= frozenset(t.text for t in tokens[inner[0] : inner[1]] if t.kind == "identifier")
            declared |= frozenset(
                tokens[i + 1].text
                for i in range(after, len(tokens) - 2)
                if tokens[i].text == "*" and tokens[i - 1].text == "("
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
            if parameters is not None:
                kind = "function"
                name = _function_name(tokens, parameters[0])
                declared = frozenset({name, *_qualifiers(tokens, parameters[0], name)[-1:]})
            else:
                kind, declared, parameters = "variable", _variable_names(tokens), None
        marks = tokens[:head] if kind == "function" else tokens
        device = any(t.text in self.device_words or _FOREIGN_DEVICE_MACRO.fullmatch(t.text) for t in marks)
        kernel = kind == "function" and any(t.text in self.kernel_words for t in marks)
        self.found.append(
            Declaration(kind, tokens, head, declared, names, inner, parameters, device, kernel, words - declared)
        )


def declarations(tokens: list[Token], defined: dict[str, Macro], *, record: bool = False) -> list[Declaration]:
    """The declarations among significant ``tokens``, including those in namespaces, in source order."""
    parser = _Parser(tokens, defined)
    parser.scope(0, len(tokens), (), record)
    return parser.found
