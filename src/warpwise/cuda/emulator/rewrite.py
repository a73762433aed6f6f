"""Rewrite CUDA C++ as C++ for g++ and clang, without moving a line; include/ww declares the names that it uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from warpwise.cuda.emulator.hidden_names import hidden_names
from warpwise.cuda.emulator.rewrite_shared import SharedVariable, shared_statement, spell
from warpwise.cuda.errors import CompileError
from warpwise.cuda.source.declarations import Declaration, declarations
from warpwise.cuda.source.directives import Macro, macros, significant
from warpwise.cuda.source.lexer import Lines, Token, closing, lex, split

# Libraries that the emulator does not implement: a file may include them, but a kernel may not use them.
ABSENT = ("cute", "cutlass", "nvshmem", "thrust")
ABSENT_HEADER = re.compile(r"""#\s*include\s*[<"](?:cute|cutlass|nvshmem|cudaTypedefs)""")


@dataclass
class Edits:
    """Replacements of ranges of a text. A replacement keeps the number of line ends of its range."""

    text: str
    changes: list[tuple[int, int, str]] = field(default_factory=list)

    def replace(self, start: int, end: int, new: str) -> None:
        self.changes.append((start, end, new + "\n" * (self.text.count("\n", start, end) - new.count("\n"))))

    def insert(self, at: int, new: str) -> None:
        self.changes.append((at, at, new))

    def apply(self) -> str:
        pieces, position = [], 0
        for start, end, new in sorted(self.changes, key=lambda change: change[:2]):
            if start < position:  # inside something already replaced
                continue
            pieces += [self.text[position:start], new]
            position = end
        return "".join([*pieces, self.text[position:]])


@dataclass(frozen=True)
class Rewritten:
    """The rewritten source: ``variables`` holds the C++ initialisers of `ww_global`, one for each global variable."""

    text: str
    variables: tuple[str, ...]


def rewrite(text: str, file: str = "kernel.cu", *, separate: bool = False) -> Rewritten:
    """Rewrite device code, pruned by :func:`warpwise.cuda.source.device_code.prune`.

    Other files may define the `extern` variables of a ``separate`` one. In any other file they are definitions, of
    zero, as for NVRTC and nvcc. Raises ``CompileError`` with file and line.
    """
    tokens = lex(text)
    defined = macros(tokens)
    code = significant(tokens)
    found = declarations(code, defined)
    edits = Edits(text)
    lines = Lines(text, file)
    _rewrite_shared(edits, code, found, defined, lines)
    _rewrite_asm(edits, code, lines)
    _rewrite_cluster_dims(edits, code)
    undefined = [] if separate else list(_undefined(found))
    for declaration in undefined:
        word, language = next(two for two in pairwise(declaration.tokens) if two[0].text == "extern")
        edits.replace(word.start, (language if language.kind == "string" else word).end, "")
    for declaration in found:
        # The table of variables lists it. Without the section of __constant__, which a const variable and one that is
        # not const cannot share.
        for token in declaration.tokens[:24] if _global(declaration) else ():
            if token.text == "__constant__":
                edits.replace(token.start, token.end, "")
    for token in hidden_names(code):
        edits.replace(token.start, token.end, f"ww_own_{token.text}")
    for token in tokens:
        if token.kind == "directive" and ABSENT_HEADER.match(token.text):
            edits.replace(token.start, token.end, "")
    for index, token in enumerate(code):
        # A macro of this name would break the attributes of the C++ library's own headers.
        if token.text == "__noinline__" and (not index or code[index - 1].text != "("):
            edits.replace(token.start, token.end, "__attribute__((noinline))")
    return Rewritten(edits.apply(), tuple(_global_variables(found, undefined)))


def _rewrite_shared(
    edits: Edits, code: list[Token], found: Sequence[Declaration], defined: dict[str, Macro], lines: Lines
) -> None:
    """Replace the `__shared__` declarations. Each function that uses one at file scope gets a binding of its own."""
    places = [index for index, token in enumerate(code) if token.text == "__shared__"]
    if not places:
        return
    bodies = list(_function_bodies(found, defined))
    outer: dict[str, SharedVariable] = {}
    local: list[tuple[int, str]] = []
    done = -1
    for place in places:
        if place <= done:
            continue
        start, end, variables = shared_statement(code, place, lines)
        done = end
        inside = any(begin < code[place].start < stop for begin, stop, _, _ in bodies)
        if inside:
            new = " ".join(variable.local() for variable in variables)
            local += [(code[place].start, variable.name) for variable in variables]
        else:
            new = " ".join(variable.site() for variable in variables if variable.name not in outer)
            outer.update({variable.name: variable for variable in variables})
        edits.replace(code[start].start, code[min(end, len(code) - 1)].end, new)
    for begin, stop, words, parameters in bodies:
        hidden = {name for offset, name in local if begin < offset < stop} | parameters
        bound = [variable.bound() for name, variable in outer.items() if name in words and name not in hidden]
        if bound:
            edits.insert(begin, " " + " ".join(bound))
    _rewrite_addresses(edits, code, {name for _, name in local} | outer.keys())


def _rewrite_addresses(edits: Edits, code: list[Token], names: set[str]) -> None:
    """Take the address `&tile[i][j]` without a check of `i`: an address past the end of a shared array is valid if it
    is not accessed, such as those of the last lanes of ldmatrix.x2. Accesses are checked with the array's bounds.
    """
    for before, sign, name, after in zip(code, code[1:], code[2:], code[3:], strict=False):
        binary = before.kind in ("identifier", "number") and before.text not in ("return", "case")
        if sign.text == "&" and name.text in names and after.text == "[" and not binary and before.text != "]":
            edits.replace(name.start, name.end, f"ww::first_element({name.text})")


def _rewrite_cluster_dims(edits: Edits, code: list[Token]) -> None:
    """Replace `__cluster_dims__` by a call at the beginning of the kernel that states the shape of its clusters."""
    for index, token in enumerate(code):
        if token.text != "__cluster_dims__" or index + 1 == len(code) or code[index + 1].text != "(":
            continue
        shape = spell(code[index + 2 : closing(code, index + 1)])
        body = next((each for each in code[index:] if each.text in ("{", ";")), None)
        if body is not None and body.text == "{":
            edits.insert(body.end, f" ww::cluster_dims({shape});")


def _function_bodies(
    found: Iterable[Declaration], defined: dict[str, Macro]
) -> Iterable[tuple[int, int, frozenset[str], frozenset[str]]]:
    """Return for each function the offsets inside its braces, the words there, and the words of its parameters."""
    for declaration in found:
        if declaration.body is None:
            continue
        opening, close = declaration.body
        inside = declaration.tokens[opening + 1 : close]
        if declaration.kind == "record":
            yield from _function_bodies(declarations(inside, defined, record=True), defined)
        elif declaration.kind == "function" and declaration.parameters:
            words = frozenset(token.text for token in inside if token.kind == "identifier")
            first, last = declaration.parameters
            parts = split(declaration.tokens[first + 1 : last])
            named = frozenset(part[-1].text for part in parts if part and part[-1].kind == "identifier")
            yield declaration.tokens[opening].end, declaration.tokens[close].start, words, named


def _rewrite_asm(edits: Edits, code: list[Token], lines: Lines) -> None:
    for index, token in enumerate(code):
        if token.text not in ("asm", "__asm__", "__asm"):
            continue
        opening = index + 1
        while opening < len(code) and code[opening].text in ("volatile", "__volatile__", "inline", "goto"):
            opening += 1
        if opening >= len(code) or code[opening].text != "(":
            continue
        close = closing(code, opening)
        if close >= len(code):
            raise CompileError(f"{_at(lines, token)}: the parenthesis of this asm statement is never closed")
        edits.replace(token.start, code[close].end, _asm_block(code[opening + 1 : close], lines, token))


def _asm_block(inside: list[Token], lines: Lines, at: Token) -> str:
    """Return the `({ ... })` that replaces `"text" : outputs : inputs : clobbers`."""
    sections = _sections(inside)
    text = " ".join(token.text for token in sections[0])
    outputs: list[str] = []
    operands: list[str] = []
    for number, section in enumerate(sections[1:3]):
        for part in _asm_operands(section):
            name, constraint, expression = _asm_operand(part, lines, at)
            if number == 0:
                variable = f"ww_output_{len(outputs)}"
                outputs.append(f"ww::PtxOutput {variable}({name}, {constraint}, {expression});")
                operands.append(f"{variable}.operand()")
            else:
                operands.append(f"ww::ptx_input({name}, {constraint}, {expression})")
    table = f"ww_ptx_operand ww_operands_[] = {{{', '.join(operands) or '{}'}}};"
    site = f"static ww_ptx_site ww_asm_ = {{{text}, WW_PLACE, nullptr}};"
    return f"({{ {site} {' '.join(outputs)} {table} ww_ptx(&ww_asm_, ww_operands_, {len(operands)}); }})"


def _sections(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split at each ':' outside brackets, and twice at '::'."""
    parts: list[list[Token]] = [[]]
    index = 0
    while index < len(tokens):
        if tokens[index].text in ("(", "[", "{"):
            end = min(closing(tokens, index), len(tokens) - 1)
            parts[-1] += tokens[index : end + 1]
            index = end
        elif tokens[index].text in (":", "::"):
            parts += [[] for _ in tokens[index].text]
        else:
            parts[-1].append(tokens[index])
        index += 1
    return parts


def _asm_operands(section: list[Token]) -> Iterable[list[Token]]:
    """Split at commas, and after each parenthesis: nvcc accepts operands without a comma between them."""
    for part in split(section):
        while part:
            opening = next((i for i, token in enumerate(part) if token.text == "("), len(part))
            end = closing(part, opening) + 1 if opening < len(part) else len(part)
            yield part[:end]
            part = part[end:]


def _asm_operand(part: list[Token], lines: Lines, at: Token) -> tuple[str, str, str]:
    name = "nullptr"
    if part[0].text == "[":
        end = closing(part, 0)
        name = '"' + "".join(token.text for token in part[1:end]) + '"'
        part = part[end + 1 :]
    opening = next((i for i, token in enumerate(part) if token.text == "("), None)
    if opening is None or opening == 0:
        raise CompileError(f'{_at(lines, at)}: an operand of asm must have the form "constraint"(expression)')
    constraint = " ".join(token.text for token in part[:opening])
    expression = spell(part[opening + 1 : closing(part, opening)])
    return name, constraint, f"({expression})"


def _at(lines: Lines, token: Token) -> str:
    file, line = lines.at(token.start)
    return f"{file}:{line}"


def _global(declaration: Declaration) -> bool:
    """True for the declaration of a variable in global or constant memory that is not a template."""
    words = [token.text for token in declaration.tokens[:24]]
    if declaration.kind != "variable" or words[0] == "template" or "__shared__" in words:
        return False
    return "__constant__" in words or "__device__" in words or "__managed__" in words


def _extern(declaration: Declaration) -> bool:
    return any(token.text == "extern" for token in declaration.tokens[:3])


def _undefined(found: Iterable[Declaration]) -> Iterable[Declaration]:
    """The first `extern` declaration of each variable that has no definition, and whose size is known."""
    every = [each for each in found if _global(each)]
    done = {(each.scope, name) for each in every if not _extern(each) for name in each.names}
    for each in every:
        names = {(each.scope, name) for name in each.names}
        unsized = any(a.text == "[" and b.text == "]" for a, b in pairwise(each.tokens))
        if _extern(each) and not unsized and not names & done:
            done |= names
            yield each


def _global_variables(found: Iterable[Declaration], undefined: Sequence[Declaration]) -> Iterable[str]:
    for declaration in found:
        if _global(declaration) and (declaration in undefined or not _extern(declaration)):
            for name in sorted(declaration.names):
                full = "::".join((*declaration.scope, name))
                yield (
                    f'{{"{full}", const_cast<void*>(static_cast<const volatile void*>(&::{full})), sizeof(::{full}), '
                    f"sizeof(std::remove_all_extents_t<decltype(::{full})>), {_constancy(declaration, name, full)}}}"
                )


def _constancy(declaration: Declaration, name: str, full: str) -> str:
    """Return ``ww_global::constant`` of a variable."""
    tokens = declaration.tokens
    if all(token.text != "__constant__" for token in tokens[:24]):
        return "0"
    after = next((index for index, token in enumerate(tokens) if token.text == name), len(tokens) - 1) + 1
    while after < len(tokens) and tokens[after].text == "[":
        after = closing(tokens, after) + 1
    if after < len(tokens) and tokens[after].text in ("=", "{", "("):
        return "kConstant"
    element = f"std::remove_all_extents_t<decltype(::{full})>"
    return f"std::is_trivially_default_constructible_v<{element}> ? kUninitialisedConstant : kConstant"
