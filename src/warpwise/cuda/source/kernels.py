"""Kernels that a CUDA source declares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from warpwise.cuda.source.declarations import Declaration, declarations
from warpwise.cuda.source.directives import macros, significant
from warpwise.cuda.source.lexer import Lines, Token, closing, closing_angle, lex, split

OVERLOAD = re.compile(r"\s*static_cast<.+>\(\s*&?\s*[\w:]+(?:<.*>)?\s*\)\s*$", re.DOTALL)
"""A name expression that chooses one of several kernels of a name: "static_cast<void (*)(int*)>(&fill)"."""


def address(expression: str) -> str:
    """The C++ expression for the address of the kernel that a name expression names."""
    return expression if OVERLOAD.match(expression) else f"&{expression}"


_NAMES = """
abs acos acosh alarm asin asinh atan atan2 atanh bcmp bcopy bsearch bzero cbrt ceil clock close copysign cos cosh
daemon difftime div drem dup erf erfc exit exp exp10 exp2 expm1 fabs fdim ffs floor fma fmax fmin fmod fork free frexp
gamma getw hypot ilogb index isatty isfinite isinf isnan isnormal j0 j1 jn labs ldexp ldiv lgamma link llabs llrint
llround log log10 log1p log2 logb lrint lround lseek malloc max memchr memcmp memcpy memmove memset min mktime modf
nan nearbyint nextafter nice norm pause pipe pow printf puts putw qsort raise rand random read realloc remainder
remove remquo rename rindex rint round scalbln scalbn select setenv signbit significand sin sincos sinh sleep sqrt
srand stpcpy strcat strchr strcmp strcpy strdup strlen strsep strstr strtok strtol swab swap sync system tan tanh
tgamma time trunc truncate unlink usleep wait write y0 y1 yn
"""
LIBRARY = frozenset(_NAMES.split())
"""Functions of the headers that are always included, which a kernel may overload."""


@dataclass(frozen=True)
class KernelDeclaration:
    """A ``__global__`` function as its source declares it.

    ``name`` includes its namespaces ("ns::scale"), ``line`` counts from 1, ``parameters`` are (declared type, name)
    pairs and ``launch_bounds`` is the maximum number of threads of a block, if it is a constant.
    ``template_parameters`` are as the source spells them. ``selector`` is a name expression for this kernel only: a
    cast if a function of a library has its name, else the name. ``overloaded``: the source defines several kernels of
    this name, of which this is the first. ``defaults`` are the parameters with default arguments, as "int n = 3".
    """

    name: str
    line: int
    parameters: tuple[tuple[str, str], ...]
    launch_bounds: int | None
    template: bool
    template_parameters: tuple[str, ...]
    selector: str
    overloaded: bool = False
    defaults: tuple[str, ...] = ()


def kernels(text: str) -> dict[str, KernelDeclaration]:
    """Every kernel that ``text`` defines or declares, by qualified name, in source order."""
    if "__global__" not in text:
        return {}
    tokens = lex(text)
    lines = Lines(text)
    defined = macros(tokens)
    found: dict[str, KernelDeclaration] = {}
    defined_names: set[str] = set()
    for declaration in declarations(significant(tokens), defined):
        if not declaration.kernel or declaration.parameters is None:
            continue
        # A definition replaces its prototype; of several overloads the first definition is kept.
        if declaration.name in defined_names or (declaration.name in found and not declaration.body):
            if declaration.body:
                first = found[declaration.name]
                found[declaration.name] = replace(first, selector=declaration.name, overloaded=True)
            continue
        if declaration.body:
            defined_names.add(declaration.name)
        prototype = found.get(declaration.name)
        found[declaration.name] = KernelDeclaration(
            name=declaration.name,
            line=lines.at(declaration.tokens[declaration.parameters[0]].start)[1],
            parameters=parameters_of(declaration),
            launch_bounds=_launch_bounds(declaration, {n: m.body for n, m in defined.items() if not m.function}),
            template=declaration.tokens[0].text == "template",
            template_parameters=_template_parameters(declaration.tokens),
            selector=_selector(declaration),
            defaults=_defaults(declaration) or (prototype.defaults if prototype else ()),
        )
    return found


def selector(expression: str, text: str) -> str:
    """``expression``, or the selector of the kernel of ``text`` that it names without namespace and arguments."""
    name = expression.strip().removeprefix("::")
    if name not in LIBRARY:
        return expression
    found = kernels(text).get(name)
    return expression if found is None or found.template else found.selector


def _selector(declaration: Declaration) -> str:
    template = declaration.tokens[0].text == "template"
    if declaration.name not in LIBRARY or declaration.parameters is None or template:
        return declaration.name
    opening, close = declaration.parameters
    types = ", ".join(_spell(split(part, "=")[0]) for part in split(declaration.tokens[opening + 1 : close]))
    return f"static_cast<void (*)({types})>(&{declaration.name})"


def _template_parameters(tokens: list[Token]) -> tuple[str, ...]:
    close = closing_angle(tokens, 1) if tokens[0].text == "template" and tokens[1].text == "<" else None
    return tuple(_spell(part) for part in split(tokens[2:close]) if part) if close else ()


def kernel_of(expression: str, found: dict[str, KernelDeclaration]) -> KernelDeclaration | None:
    """The declaration among ``found`` that a name expression such as "ns::scale<float, 4>" names."""
    tokens = lex(expression, directives=False)
    names = [t.text for t in tokens if t.kind == "identifier"]
    plain = expression.split("<")[0].replace(" ", "").lstrip("&").removeprefix("::")
    if plain in found:
        return found[plain]
    for name in names:
        matches = [kernel for kernel in found.values() if kernel.name.rsplit("::", 1)[-1] == name]
        if matches:
            return matches[0]
    return None


def parameters_of(declaration: Declaration) -> tuple[tuple[str, str], ...]:
    """The (declared type, name) pairs of a function's parameters."""
    if declaration.parameters is None:
        return ()
    opening, close = declaration.parameters
    result = []
    for part in split(declaration.tokens[opening + 1 : close]):
        tokens = split(part, "=")[0]
        if not tokens or (len(tokens) == 1 and tokens[0].text == "void"):
            continue
        at = name_index(tokens)
        declared = _spell(tokens if at is None else tokens[:at] + tokens[at + 1 :])
        array = re.fullmatch(r"(.*[^)\]])((?:\[[^\[\]]*\])+)", declared)  # not a pointer to an array, int (*)[16]
        if array:
            declared = array[1] + "*" * array[2].count("[")
        result.append((declared, "" if at is None else tokens[at].text))
    return tuple(result)


def _defaults(declaration: Declaration) -> tuple[str, ...]:
    if declaration.parameters is None:
        return ()
    opening, close = declaration.parameters
    parts = split(declaration.tokens[opening + 1 : close])
    return tuple(_spell(part) for part in parts if len(split(part, "=")) > 1)


_QUALIFIERS = frozenset({"const", "volatile", "__restrict__", "__restrict", "restrict", "__grid_constant__"})
_BEFORE_TYPES = frozenset({"struct", "class", "enum", "typename"})
TYPE_WORDS = _QUALIFIERS | {"int", "float", "double", "char", "short", "long", "bool", "unsigned", "signed", "auto"}
"""Identifiers of a parameter's type that cannot be its name."""


def name_index(declared: Sequence[Token]) -> int | None:
    """The index of the name among the tokens of a declared parameter, None if it has none.

    The name is the last identifier, if a type precedes it: "half" in "int half" and in "half half", none in "half".
    """
    for index, token in enumerate(declared[:-2]):
        if token.text == "(" and declared[index + 1].text in ("*", "&"):
            inner = index + 2
            while declared[inner].text in _QUALIFIERS:
                inner += 1
            if declared[inner].kind == "identifier":
                return inner  # float (*rows)[16]
    last = len(declared) - 1
    while declared[last].text == "]":
        last = max(i for i, token in enumerate(declared[:last]) if token.text == "[") - 1
    if last < 1 or declared[last].kind != "identifier" or declared[last].text in TYPE_WORDS:
        return None
    typed = any(t.kind == "identifier" and t.text not in _QUALIFIERS | _BEFORE_TYPES for t in declared[:last])
    return last if typed and declared[last - 1].text not in ("::", *_BEFORE_TYPES) else None


def _spell(tokens: Sequence[Token]) -> str:
    text = ""
    for token in tokens:
        glue = not text or token.text in "*&,>:)[]" or token.text in ("::", "<") or text.endswith(("::", "<", "(", "["))
        text += token.text if glue else " " + token.text
    return text


def _launch_bounds(declaration: Declaration, values: dict[str, str]) -> int | None:
    """The first argument of __launch_bounds__, if it consists of integers, + - * / and object-like macros."""
    tokens = declaration.tokens
    at = next((i for i, token in enumerate(tokens[: declaration.head]) if token.text == "__launch_bounds__"), None)
    if at is None or at + 1 >= len(tokens) or tokens[at + 1].text != "(":
        return None
    argument = split(tokens[at + 2 : closing(tokens, at + 1)])[0]
    text = " ".join(t.text for t in argument)
    for _ in range(8):
        expanded = re.sub(r"[A-Za-z_]\w*", lambda match: f"({values.get(match[0], match[0])})", text)
        if expanded == text:
            break
        text = expanded
    return _integer(text)


def _integer(text: str) -> int | None:
    """The value of an expression of integers, + - * / and parentheses; None for anything else."""
    if not re.fullmatch(r"[\d\s()+*/-]+", text):
        return None
    tokens = [t.text for t in lex(text, directives=False)]

    def sum_() -> int:
        value = product()
        while tokens and tokens[0] in "+-":
            value = value + product() if tokens.pop(0) == "+" else value - product()
        return value

    def product() -> int:
        value = atom()
        while tokens and tokens[0] in "*/":
            value = value * atom() if tokens.pop(0) == "*" else value // atom()
        return value

    def atom() -> int:
        word = tokens.pop(0)
        if word == "(":
            value = sum_()
            tokens.pop(0)
            return value
        return int(word)

    try:
        value = sum_()
    except (IndexError, ValueError, ZeroDivisionError):
        return None
    return value if not tokens else None
