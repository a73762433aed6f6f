"""What a CUDA source declares: its kernels, and its device code apart from the host's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from warpwise.cuda.declarations import Declaration, declarations
from warpwise.cuda.directives import Macro, macros, significant
from warpwise.cuda.lexer import Lines, Token, blank, closing, lex, split
from warpwise.cuda.reach import needed

# Standard headers whose contents no kernel can call; NVRTC has none of them, and g++ takes long to read them.
_HOST_HEADER = re.compile(
    r"""(?:torch|ATen|c10|caffe2|pybind11|thrust|nvtx3|opencv2?|boost|omp|mpi|sys|Eigen|gtest|benchmark|glad|GL|GLFW)[/.].*
    | Python\.h | numpy/.* | cublas.* | cudnn.* | cufft.* | cusparse.* | cusolver.* | curand\.h | nvml.* | nvToolsExt.*
    | nccl.* | nvrtc.* | cuda_profiler_api\.h | cudaProfiler.* | helper_(?:cuda|timer|functions|image|string|gl)\.h
    | unistd\.h | getopt\.h | time\.h | signal\.h | pthread\.h | dirent\.h | fcntl\.h | errno\.h | locale\.h
    | algorithm | any | bitset | cerrno | charconv | chrono | clocale | codecvt | condition_variable | csignal | ctime | deque
    | execution | exception | filesystem | format | forward_list | fstream | functional | future | iomanip | ios | iosfwd
    | iostream | istream | iterator | list | locale | map | memory | mutex | numeric | optional | ostream | queue | random
    | ranges | ratio | regex | set | shared_mutex | sstream | stack | stdexcept | streambuf | string | string_view | strstream
    | system_error | thread | typeindex | typeinfo | unordered_map | unordered_set | variant | vector | print | span
    """,
    re.VERBOSE,
)
# PyTorch's headers bring the half types with them.
_TORCH_HEADER = re.compile(r"""[<"](?:torch|ATen|c10)/""")
_HALF_TYPES = frozenset(
    {"half", "half2", "__half", "__half2", "nv_bfloat16", "__nv_bfloat16", "nv_bfloat162", "__nv_bfloat162"}
)
_HALF_HEADER = "#include <cuda_bf16.h>"
INCLUDE = re.compile(r"""#\s*include\s*(<[^>\n]+>|"[^"\n]+")""")


@dataclass(frozen=True)
class KernelDeclaration:
    """A ``__global__`` function as its source declares it.

    ``name`` carries its namespaces ("ns::scale"), ``line`` counts from 1, ``parameters`` are (declared type, name) pairs
    and ``launch_bounds`` is the most threads a block may have, where that is a plain number.
    """

    name: str
    line: int
    parameters: tuple[tuple[str, str], ...]
    launch_bounds: int | None
    template: bool


def kernels(text: str) -> dict[str, KernelDeclaration]:
    """Every kernel that ``text`` defines or declares, by its name with namespaces, in source order."""
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
        # A definition replaces its prototype; of several overloads the first definition stays.
        if declaration.name in defined_names or (declaration.name in found and not declaration.body):
            continue
        if declaration.body:
            defined_names.add(declaration.name)
        found[declaration.name] = KernelDeclaration(
            name=declaration.name,
            line=lines.at(declaration.tokens[declaration.parameters[0]].start)[1],
            parameters=_parameters(declaration),
            launch_bounds=_launch_bounds(declaration, {n: m.body for n, m in defined.items() if not m.function}),
            template=declaration.tokens[0].text == "template",
        )
    return found


def kernel_of(expression: str, found: dict[str, KernelDeclaration]) -> KernelDeclaration | None:
    """The declaration among ``found`` that a name expression such as "ns::scale<float, 4>" means."""
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


def device_code(text: str) -> str:
    """``text`` with all that only the host needs turned to blanks, each line where it was.

    Kept are kernels, device functions and variables, and whatever these mention: structs, templates, constants, macros.
    Host functions go, unless constexpr; so do includes of headers that hold host code (iostream, vector, torch/...).
    """
    return prune(text)


def prune(text: str, roots: Iterable[str] | None = None, *, host_headers: bool = False) -> str:
    """:func:`device_code`, but only what the names in ``roots`` need (None: every kernel and device declaration).

    ``host_headers`` keeps the includes of the C++ standard library where a kept declaration says ``std``.
    """
    tokens = lex(text)
    defined = macros(tokens)
    found = declarations(significant(tokens), defined)
    if roots is None:
        wanted = {name for d in found if d.device and (d.kind in ("function", "variable")) for name in d.names}
        wanted |= {name for d in found if d.kind == "other" and d.device for name in d.words}
    else:
        wanted = set(roots)
    kept = needed(found, defined, wanted)
    calls = {index for index, d in enumerate(found) if d.tokens[0].text in defined and _expands_to_device(d, defined)}
    kept |= calls
    for index in calls:
        kept |= needed(found, defined, found[index].words)
    uses_std = any("std" in found[index].words for index in kept)
    ranges = [(d.start, d.end) for index, d in enumerate(found) if index not in kept]
    for index in kept:
        if found[index].kind == "record" and found[index].body:
            ranges += _host_members(found[index], defined)
    dropped: list[Token] = []
    for token in tokens:
        include = INCLUDE.match(token.text) if token.kind == "directive" else None
        if include and is_host_header(include[1]) and not (host_headers and uses_std and _is_standard(include[1])):
            dropped.append(token)
            ranges.append((token.start, token.end))
    result = _blanked(text, ranges, [t for t in tokens if t.kind == "directive" and t not in dropped])
    torch = next((t for t in dropped if _TORCH_HEADER.search(t.text)), None)
    if torch and any(_HALF_TYPES & found[index].words for index in kept):
        result = (
            result[: torch.start]
            + _HALF_HEADER.ljust(len(torch.text))
            + result[max(torch.end, torch.start + len(_HALF_HEADER)) :]
        )
    return result


def is_host_header(name: str) -> bool:
    """Whether `<name>` or `"name"` is a header that device code has no use for."""
    return _HOST_HEADER.fullmatch(name.strip('<>"')) is not None


def _is_standard(name: str) -> bool:
    return name.startswith("<") and re.fullmatch(r"[a-z_]+", name.strip("<>")) is not None


def _expands_to_device(declaration: Declaration, defined: dict[str, Macro]) -> bool:
    macro = defined[declaration.tokens[0].text]
    return macro.function and declaration.kind in ("other", "variable", "function") and declaration.device


def _host_members(record: Declaration, defined: dict[str, Macro]) -> list[tuple[int, int]]:
    """Member functions with a body that are neither device code, constexpr nor defaulted."""
    if record.body is None:
        return []
    inside = record.tokens[record.body[0] + 1 : record.body[1]]
    ranges = []
    for member in declarations(inside, defined, record=True):
        constant = any(t.text in ("constexpr", "consteval") for t in member.tokens[: member.head])
        if member.kind == "function" and member.body and not member.device and not constant:
            ranges.append((member.start, member.end))
        elif member.kind == "record" and member.body:
            ranges += _host_members(member, defined)
    return ranges


def _blanked(text: str, ranges: list[tuple[int, int]], directives: list[Token]) -> str:
    """Blank the ``ranges``, but no directive inside them: an `#if` keeps its `#endif`."""
    pieces: list[str] = []
    position = 0
    for start, end in sorted(ranges):
        if end <= position:
            continue
        pieces.append(text[position : max(position, start)])
        position = max(position, start)
        for directive in directives:
            if position < directive.start < end:
                pieces.append(blank(text[position : directive.start]))
                pieces.append(text[directive.start : directive.end])
                position = directive.end
        pieces.append(blank(text[position:end]))
        position = max(position, end)
    pieces.append(text[position:])
    return "".join(pieces)


def _parameters(declaration: Declaration) -> tuple[tuple[str, str], ...]:
    if declaration.parameters is None:
        return ()
    opening, close = declaration.parameters
    result = []
    for part in split(declaration.tokens[opening + 1 : close]):
        tokens = split(part, "=")[0]
        if not tokens or (len(tokens) == 1 and tokens[0].text == "void"):
            continue
        array = ""
        while tokens[-1].text == "]":
            start = max(i for i, t in enumerate(tokens) if t.text == "[")
            tokens, array = tokens[:start], "*"
        named = len(tokens) > 1 and tokens[-1].kind == "identifier" and tokens[-1].text not in _TYPE_WORDS
        name = tokens[-1].text if named else ""
        result.append((_spell(tokens[:-1] if named else tokens) + array, name))
    return tuple(result)


_TYPE_WORDS = frozenset({
    "int", "float", "double", "char", "short", "long", "bool", "unsigned", "signed", "const", "volatile", "half", "__restrict__",
})  # fmt: skip


def _spell(tokens: list[Token]) -> str:
    text = ""
    for token in tokens:
        glue = not text or token.text in "*&,>:" or token.text in ("::", "<") or text.endswith(("::", "<"))
        text += token.text if glue else " " + token.text
    return text


def _launch_bounds(declaration: Declaration, values: dict[str, str]) -> int | None:
    """The first argument of __launch_bounds__, if it comes down to integers, + - * / and object-like macros."""
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
