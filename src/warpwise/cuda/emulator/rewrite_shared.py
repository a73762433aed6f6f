"""A `__shared__` declaration: its statement, its declarators, and the C++ that replaces each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpwise.cuda.errors import CompileError
from warpwise.cuda.source.lexer import Lines, Token, closing, closing_angle, split

_DROPPED = frozenset({"__shared__", "extern", "static", "inline", "constexpr"})
_ALIGNING = frozenset({"alignas", "__align__", "__builtin_align__"})


@dataclass(frozen=True)
class SharedVariable:
    """A variable in shared memory. ``declaration`` is a typedef of its C++ type as `ww_type_<name>`.

    ``single``: dynamic shared memory that is declared as one object, `extern __shared__ Storage s;`.
    """

    name: str
    declaration: str
    align: str
    dynamic: bool
    single: bool = False

    def local(self) -> str:
        """Return the replacement of a declaration inside a function."""
        if self.single:
            return f"{self.site()} {self.bound()}"
        macro = "WW_DYNAMIC_SHARED" if self.dynamic else "WW_SHARED"
        return f"{self.declaration} {macro}({self.name}, {self.align})"

    def site(self) -> str:
        """Return the replacement of a declaration at file scope. Each function that uses the variable declares it."""
        macro = "WW_DYNAMIC_SITE" if self.dynamic else "WW_SITE"
        return f"{self.declaration} {macro}({self.name}, {self.align})"

    def bound(self) -> str:
        macro = (
            "WW_DYNAMIC_REFERENCE" if self.single else "WW_DYNAMIC_POINTER" if self.dynamic else "WW_SHARED_REFERENCE"
        )
        return f"{macro}({self.name})"


def shared_statement(code: Sequence[Token], place: int, lines: Lines) -> tuple[int, int, list[SharedVariable]]:
    """Return the first and last token of the declaration around the `__shared__` at ``place``, and its variables."""
    start = place
    while start > 0 and code[start - 1].text not in (";", "{", "}", ":"):
        start -= 1
    # A parenthesis before the declaration belongs to it if it follows alignas, not if it follows a label or a macro.
    end = place
    while end < len(code) and code[end].text != ";":
        end = closing(code, end) + 1 if code[end].text in ("(", "[", "{") else end + 1
    tokens, alignments, dynamic = _without_qualifiers(code[start:end])
    file, line = lines.at(code[place].start)
    where = f"{file}:{line}: cannot read this __shared__ declaration"
    if not tokens:
        raise CompileError(where)
    parts = split(tokens)
    name = _declared(parts[0])
    if name is None:
        raise CompileError(f"{where}: {spell(tokens)}")
    base_end = name
    while base_end > 0 and parts[0][base_end - 1].text in ("*", "&", "(", "const", "volatile"):
        base_end -= 1
    if base_end == 0:
        base_end = name
    base = spell(parts[0][:base_end])
    variables = []
    for number, part in enumerate(parts):
        declarator = part[base_end:] if number == 0 else part
        at = _declared(declarator)
        if at is None:
            raise CompileError(f"{where}: {spell(tokens)}")
        variables.append(_variable(base, declarator, at, alignments, dynamic))
    return start, end, variables


def _variable(base: str, declarator: list[Token], at: int, alignments: list[str], dynamic: bool) -> SharedVariable:
    name = declarator[at].text
    before, after = spell(declarator[:at]), list(declarator[at + 1 :])
    single = dynamic and not (after and after[0].text == "[")
    if dynamic and after and after[0].text == "[":  # the launch gives the first bound of `extern __shared__ T x[][4]`
        after = after[closing(after, 0) + 1 :]
    declaration, align = f"typedef {base} {before} ww_type_{name} {spell(after)};", "1"
    if alignments:  # the operand of alignas may be a type or a number
        asked = " ".join(f"alignas({each})" for each in alignments)
        declaration += f" typedef struct {{ {asked} char byte; }} ww_align_{name};"
        align = f"alignof(ww_align_{name})"
    return SharedVariable(name, declaration, align, dynamic, single)


def _without_qualifiers(tokens: Sequence[Token]) -> tuple[list[Token], list[str], bool]:
    """Return the tokens of the declaration without specifiers, its alignments, and whether it is extern."""
    kept: list[Token] = []
    alignments: list[str] = []
    dynamic = False
    index = 0
    while index < len(tokens):
        token = tokens[index]
        called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if token.text in _ALIGNING and called:
            end = closing(tokens, index + 1)
            alignments.append(spell(tokens[index + 2 : end]))
            index = end
        elif token.text == "__attribute__" and called:
            end = closing(tokens, index + 1)
            for at in range(index, end):
                if tokens[at].text in ("aligned", "__aligned__") and tokens[at + 1].text == "(":
                    alignments.append(spell(tokens[at + 2 : closing(tokens, at + 1)]))
            index = end
        elif token.text == "[" and index + 1 < len(tokens) and tokens[index + 1].text == "[":  # [[maybe_unused]]
            index = closing(tokens, index)
        elif token.text in _DROPPED:
            dynamic = dynamic or token.text == "extern"
        else:
            kept.append(token)
        index += 1
    return kept, alignments, dynamic


def _declared(tokens: Sequence[Token]) -> int | None:
    """Return the index of the declared name: the last identifier before a bound, an initialiser or the end."""
    index, found = 0, None
    while index < len(tokens):
        token = tokens[index]
        if token.text in ("[", "="):
            break
        if token.text == "{":
            if found is not None and tokens[index - 1].kind == "identifier" and not _record_head(tokens[:index]):
                break
            index = closing(tokens, index)
        elif token.text == "(" and index and tokens[index - 1].text in ("decltype", "__typeof__", "typeof"):
            index = closing(tokens, index)
        elif token.text == "<" and index and tokens[index - 1].kind == "identifier":
            index = closing_angle(tokens, index) or index
        elif token.kind == "identifier" and token.text not in ("const", "volatile"):
            found = index
        index += 1
    return found


def _record_head(tokens: Sequence[Token]) -> bool:
    return any(token.text in ("struct", "class", "union") for token in tokens)


def spell(tokens: Sequence[Token]) -> str:
    """The text of ``tokens`` in one line; tokens such as the two of `<<` stay together."""
    text = ""
    for index, token in enumerate(tokens):
        apart = index and tokens[index - 1].end != token.start
        text += f" {token.text}" if apart else token.text
    return text
