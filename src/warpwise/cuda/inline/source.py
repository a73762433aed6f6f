"""Rewrite CUDA sources to host code that g++ compiles.

As with nvcc, each kernel becomes a host stub of the same signature that launches it, and ``kernel<<<grid, block>>>(x)``
becomes ``configure(grid, block), kernel(x)``. The bodies of device functions are removed. Line numbers do not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpwise.cuda.errors import CompileError, UnsupportedFeature
from warpwise.cuda.inline.functors import called_on_host, is_call_operator
from warpwise.cuda.source.declarations import Declaration, Macro, declarations, macros, significant
from warpwise.cuda.source.kernels import TYPE_WORDS, name_index
from warpwise.cuda.source.lexer import Lines, Token, closing, closing_angle, lex, split

# A macro of this name would break the attributes of the C++ library's headers.
_NOINLINE = re.compile(r"(?<![(\w])__noinline__\b")
_CONFIGURE = "::warpwise_host::configure"
_STATEMENTS = frozenset({"else", "do", "return"})


@dataclass(frozen=True)
class Edit:
    """A replacement of the source's characters [start, end) by ``text``."""

    start: int
    end: int
    text: str


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Apply ``edits`` to ``text``. An edit inside another one is ignored."""
    pieces: list[str] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if edit.start < position:
            continue
        pieces += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*pieces, text[position:]])


def host_code(text: str, file: str, table: str = "ww_symbols", *, functors: bool = False) -> str:
    """The host code of a CUDA source. Raises ``CompileError`` for a launch that cannot be parsed.

    ``table`` names the table of the source's global variables; it differs between files of one translation unit. With
    ``functors`` the device code that the algorithms of Thrust call on a CPU is kept: call operators, lambdas, and the
    device functions that they name.
    """
    text = _NOINLINE.sub("__attribute__((noinline))", text)
    tokens = lex(text)
    defined = macros(tokens)
    lines = Lines(text, file)
    edits = list(_launches(text, tokens, lines))
    found = declarations(significant(tokens), defined)
    called = called_on_host(found, defined) if functors else frozenset()
    for declaration in found:
        edits += _strip_device_code(text, tokens, declaration, defined, called)
    edits += _of_macros(text, tokens, defined, called)
    symbols = ", ".join(_symbol_entries(found, lines))
    if not symbols:
        return apply(text, edits)
    code = (
        f"static const ww_symbol {table}[] = {{{symbols}}};\n"
        f"[[maybe_unused]] static const int {table}_registered = "
        f"ww_host_register_symbols(WW_EXTENSION, {table}, sizeof {table} / sizeof *{table});"
    )
    guard = f"{table.upper()}_TABLE"  # a header may be included twice
    return f'{apply(text, edits)}\n#line 1 "<variables>"\n#ifndef {guard}\n#define {guard}\n{code}\n#endif\n'


def _symbol_entries(found: Iterable[Declaration], lines: Lines) -> Iterable[str]:
    """An initialiser of ``ww_symbol`` for each ``__device__`` or ``__constant__`` variable at namespace scope."""
    for declaration in found:
        words = [token.text for token in declaration.tokens]
        if declaration.kind == "variable" and words[0] == "template" and "__constant__" in words and "=" not in words:
            where, line = lines.at(declaration.tokens[0].start)
            raise UnsupportedFeature(
                f"{where}:{line}: a template of __constant__ variables has no CPU version: "
                "declare a variable for each type"
            )
        if declaration.kind != "variable" or words[0] in ("template", "extern") or "__shared__" in words:
            continue
        constant = "__constant__" in words
        if constant or "__device__" in words or "__managed__" in words:
            for name in sorted(declaration.names):
                full = "::".join((*declaration.scope, name))
                address = f"const_cast<void*>(static_cast<const volatile void*>(&::{full}))"
                yield f'{{"{full}", {address}, sizeof(::{full}), {int(constant)}, {int("__managed__" in words)}}}'


_BEFORE_CODE = re.compile(r"\s+")


def with_prelude(text: str, prelude: str) -> str:
    """Insert ``prelude`` as one line before the first declaration of ``text``: line numbers do not change."""
    one_line = _BEFORE_CODE.sub(" ", re.sub(r"//[^\n]*", "", prelude)).strip()
    first = next((token.start for token in lex(text) if token.kind not in ("comment", "directive")), len(text))
    return f"{text[:first]}{one_line} {text[first:]}"


def _strip_device_code(
    text: str,
    tokens: Sequence[Token],
    declaration: Declaration,
    defined: dict[str, Macro],
    called: frozenset[str] = frozenset(),
) -> list[Edit]:
    if declaration.body is None:
        return []
    if declaration.kind == "record":
        inside = declaration.tokens[declaration.body[0] + 1 : declaration.body[1]]
        members = declarations(inside, defined, record=True)
        return [edit for member in members for edit in _strip_device_code(text, tokens, member, defined, called)]
    if declaration.kind != "function":
        return []
    if declaration.kernel:
        return _stub(text, tokens, declaration)
    head = {token.text for token in declaration.tokens[: declaration.head]}
    host = any("__host__" in word or "HOST" in word or word in ("HD", "constexpr", "auto") for word in head)
    host = host or any("__host__" in defined[word].body for word in head & defined.keys())
    if host or not declaration.device:
        return []
    if called and (is_call_operator(declaration) or not called.isdisjoint(declaration.names)):
        return []
    start = declaration.tokens[_end_of_head(declaration)].start
    end = declaration.tokens[declaration.body[1]].end
    return [Edit(start, end, ";" + _preserved_lines(text, tokens, start, end))]


_DEFINE = re.compile(r"#\s*define\s+\w+(?:\([^)]*\))?(?=[\s\S]*\{)")


def _of_macros(text: str, tokens: Sequence[Token], defined: dict[str, Macro], called: frozenset[str]) -> Iterable[Edit]:
    """The edits of kernels and device functions that a macro declares as a whole."""
    for token in tokens:
        define = _DEFINE.match(token.text) if token.kind == "directive" else None
        start = token.start + define.end() if define else token.end
        inner = moved(lex(text[start : token.end], directives=False), start)
        words = [each.text for each in inner]
        if words.count("{") != words.count("}"):
            continue
        for declaration in declarations(inner, defined):
            for edit in _strip_device_code(text, (), declaration, defined, called):
                yield Edit(edit.start, edit.end, edit.text.replace("\n", "\\\n"))


def moved(tokens: Iterable[Token], by: int) -> list[Token]:
    """``tokens`` of a directive, with offsets in the whole text and without comments."""
    return [Token(t.kind, t.text, t.start + by, t.end + by) for t in tokens if t.kind != "comment"]


def _end_of_head(declaration: Declaration) -> int:
    """The index of the token after a function's declarator: ``{``, or ``:`` of a constructor's initialiser list."""
    assert declaration.body is not None
    after = declaration.parameters[1] if declaration.parameters else 0
    for index in range(after + 1, declaration.body[0]):
        if declaration.tokens[index].text == ":":
            return index
    return declaration.body[0]


def _preserved_lines(text: str, tokens: Sequence[Token], start: int, end: int) -> str:
    """The newlines and preprocessor directives of ``text[start:end]``, which must stay when the code is removed."""
    pieces = []
    position = start
    for token in tokens:
        if token.kind == "directive" and start <= token.start < end and not re.match(r"#\s*pragma", token.text):
            pieces += ["\n" * text.count("\n", position, token.start), token.text]
            position = token.end
    pieces.append("\n" * text.count("\n", position, end))
    return "".join(pieces)


# ---- stubs


def _stub(text: str, tokens: Sequence[Token], kernel: Declaration) -> list[Edit]:
    """Replace the kernel's body by a launch of its own instance, ``&scale<T, N>``."""
    assert kernel.body is not None
    assert kernel.parameters is not None
    opening, close = kernel.parameters
    edits: list[Edit] = []
    names: list[str] = []
    pack = False
    for part in split(kernel.tokens[opening + 1 : close]):
        declared = split(part, "=")[0]
        if not declared or [token.text for token in declared] == ["void"]:
            continue
        at = name_index(declared)
        name = f"ww_{len(names)}" if at is None else declared[at].text
        if at is None:
            edits.append(Edit(declared[-1].end, declared[-1].end, " " + name))
        dots = "..." if any(token.text == "..." for token in declared) else ""
        pack = pack or bool(dots)
        names.append(name + dots)
    types = ", ".join(
        f"::warpwise_host::unqualified_t<decltype({name.removesuffix('...')})>{'...' if name.endswith('...') else ''}"
        for name in names
    )
    # The parameters of a pack share one name, so a kernel with a pack passes no names.
    quoted = ", ".join([f'"{name}"' for name in names] + ["nullptr"])
    instance = _instance_name(text, kernel)
    if instance.partition("<")[0] in names:  # the parameter hides the kernel
        instance = "::".join(("", *kernel.scope, instance))
    launch = ", ".join(["nullptr" if pack else "ww_names", *names])
    body = (
        f"{{ static const char* const ww_names[] = {{{quoted}}}; (void)ww_names; "
        f"::warpwise_host::launch<static_cast<void (*)({types})>(&{instance})>({launch}); }}"
    )
    start, end = kernel.tokens[kernel.body[0]].start, kernel.tokens[kernel.body[1]].end
    return [*edits, Edit(start, end, body + _preserved_lines(text, tokens, start, end))]


def _instance_name(text: str, kernel: Declaration) -> str:
    """The expression that names the kernel's own instance inside its body, without ``&``."""
    assert kernel.parameters is not None
    tokens, opening = kernel.tokens, kernel.parameters[0]
    if tokens[opening - 1].text == ">":  # an explicit specialisation: `void scale<float>(...)`
        start = _opening_angle(tokens, opening - 1)
        return tokens[start - 1].text + text[tokens[start].start : tokens[opening - 1].end]
    if tokens[opening - 1].text == ")":  # KERNEL(name)(parameters), where a macro declares the kernel
        return kernel.name.rpartition("::")[2]
    name, at = tokens[opening - 1].text, opening - 2
    while at > 0 and tokens[at].text == "##":  # in a macro
        name, at = f"{tokens[at - 1].text}##{name}", at - 2
    if tokens[0].text != "template" or (end := closing_angle(tokens, 1)) is None:
        return name
    arguments = []
    for part in split(tokens[2:end]):
        declared = split(part, "=")[0]
        named = len(declared) > 1 and declared[-1].kind == "identifier" and declared[-1].text not in TYPE_WORDS
        if not named or declared[-1].text in ("typename", "class"):
            break  # unnamed: it has a default, as do all that follow
        pack = any(token.text == "..." for token in declared)
        arguments.append(declared[-1].text + ("..." if pack else ""))
    return f"{name}<{', '.join(arguments)}>"


def _opening_angle(tokens: Sequence[Token], index: int) -> int:
    """The index of the ``<`` that matches the ``>`` at ``index``; -1 if there is none."""
    depth = 0
    while index >= 0:
        text = tokens[index].text
        if text in (")", "]", "}"):
            index = _opening(tokens, index)
        elif text == ">":
            depth += 1
        elif text == "<":
            depth -= 1
            if depth == 0:
                return index
        elif text in (";", "{", "("):
            break
        index -= 1
    return -1


def _opening(tokens: Sequence[Token], index: int) -> int:
    """The index of the bracket that matches the closing one at ``index``; -1 if there is none."""
    depth = 0
    for position in range(index, -1, -1):
        text = tokens[position].text
        depth += (text in (")", "]", "}")) - (text in ("(", "[", "{"))
        if depth == 0:
            return position
    return -1


# ---- launches

_LAUNCH = re.compile(r"<<\s*<")


def _launches(text: str, tokens: Sequence[Token], lines: Lines) -> Iterable[Edit]:
    code = [token for token in tokens if token.kind not in ("comment", "directive")]
    yield from _launch_edits(text, code, lines)
    for token in tokens:
        if token.kind == "directive" and _LAUNCH.search(token.text):
            yield from _launch_edits(text, moved(lex(token.text, directives=False), token.start), lines)


def _launch_edits(text: str, tokens: Sequence[Token], lines: Lines) -> Iterable[Edit]:
    for index, token in enumerate(tokens):
        last = _last_opening_chevron(tokens, index)
        if last is None:
            continue
        end = _closing_chevrons(tokens, last)
        start = _callee_start(tokens, index)
        if end is None or start is None:
            file, line = lines.at(token.start)
            raise CompileError(f"{file}:{line}: cannot parse this launch; expected kernel<<<grid, block>>>(arguments)")
        configuration = text[tokens[last].end : tokens[end].start]
        first = tokens[start].start
        callee = text[first : token.start].rstrip()
        if callee.endswith("\\"):  # in a macro, before the end of a line
            callee += "\n"
        # One edit, since the configuration moves before the kernel's name with its newlines.
        yield Edit(first, tokens[end + 2].end, f"{_CONFIGURE}(__LINE__, {configuration}), {callee}")


def _last_opening_chevron(tokens: Sequence[Token], index: int) -> int | None:
    """The index of the last token of the ``<<<`` that begins at ``index``; nvcc also takes ``<< <`` and ``>> >``."""
    if tokens[index].text == "<<<":
        return index
    spaced = [token.text for token in tokens[index : index + 3]] == ["<", "<", "<"]
    return index + 2 if spaced and tokens[index].end == tokens[index + 1].start else None


def _closing_chevrons(tokens: Sequence[Token], index: int) -> int | None:
    """The index of the first ``>`` of the ``>>>`` that matches the ``<<<`` whose last token is at ``index``."""
    position = index + 1
    while position + 2 < len(tokens):
        text = tokens[position].text
        if text in ("(", "[", "{"):
            position = closing(tokens, position)
        elif text == "<" and tokens[position - 1].kind == "identifier":
            position = closing_angle(tokens, position) or position
        elif text == ">" and tokens[position + 1].text == ">" and tokens[position + 2].text == ">":
            return position if tokens[position].end == tokens[position + 1].start else None
        elif text in (";", ")", "}"):
            return None
        position += 1
    return None


def _callee_start(tokens: Sequence[Token], chevrons: int) -> int | None:
    """The first token of the expression before ``<<<``: ``ns::scale<float, 4>``, ``(*kernel)`` or ``kernels[i]``."""
    index = chevrons - 1
    while index >= 0 and tokens[index].text in (")", "]"):
        index = _opening(tokens, index)
        if index > 0 and (tokens[index - 1].kind == "identifier" or tokens[index - 1].text in (")", "]", ">")):
            index -= 1
        else:
            return index if index >= 0 else None
    while index >= 0:
        if tokens[index].text == ">":
            index = _opening_angle(tokens, index) - 1
        if index < 0 or tokens[index].kind != "identifier":
            return None
        if index and tokens[index - 1].text == "template":
            index -= 1
        if index == 0 or tokens[index - 1].text not in ("::", ".", "->", "##"):
            return index
        before = tokens[index - 2] if index > 1 else None
        if before is None or before.text in _STATEMENTS or (before.kind != "identifier" and before.text != ">"):
            return index - 1  # ::scale
        index -= 2
    return None
