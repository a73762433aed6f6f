"""Device code of a CUDA source: the text without the declarations that only host code uses."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from warpwise import cache
from warpwise.cuda.source import includes
from warpwise.cuda.source.declarations import Declaration, declarations
from warpwise.cuda.source.directives import Macro, macros, significant
from warpwise.cuda.source.lexer import Token, blank, lex
from warpwise.cuda.source.reach import needed

# Headers that contain host code only. NVRTC does not have them, and g++ takes long to parse them.
_HOST_HEADER = re.compile(
    r"""(?:torch|ATen|c10|caffe2|pybind11|thrust|nvtx3|opencv2?|boost|omp|mpi|sys|Eigen|gtest|benchmark)[/.].*
    | (?:glad|GL|GLFW)[/.].*
    | Python\.h | numpy/.* | cublas.* | cudnn.* | cufft.* | cusparse.* | cusolver.* | curand\.h | nvml.* | nvToolsExt.*
    | nccl.* | nvrtc.* | cupti.* | nvperf.* | cuda_profiler_api\.h | cudaProfiler.* | helper_(?!math)\w+\.h
    | cuda_(?:gl|egl|vdpau)_interop\.h | cuda(?:GL|EGL|VDPAU).*\.h | cuda_occupancy\.h | npp.* | nvjpeg.* | windows\.h
    | unistd\.h | getopt\.h | time\.h | signal\.h | pthread\.h | dirent\.h | fcntl\.h | errno\.h | locale\.h
    | algorithm | any | bitset | cerrno | charconv | chrono | clocale | codecvt | condition_variable | csignal | ctime
    | deque | execution | exception | filesystem | format | forward_list | fstream | functional | future | iomanip | ios
    | iosfwd | iostream | istream | iterator | list | locale | map | memory | mutex | numeric | optional | ostream
    | queue | random | ranges | ratio | regex | set | shared_mutex | sstream | stack | stdexcept | streambuf | string
    | string_view | strstream | system_error | thread | typeindex | typeinfo | unordered_map | unordered_set | variant
    | vector | print | span
    """,
    re.VERBOSE,
)
_HALF_TYPES = frozenset(
    {"half", "half2", "__half", "__half2", "nv_bfloat16", "__nv_bfloat16", "nv_bfloat162", "__nv_bfloat162"}
)
_HALF_NAME = re.compile(r"\b__\w*(?:half|bfloat16)\w*")
_DEPENDENT_LAUNCH = re.compile(r"\bcuda(?:GridDependencySynchronize|TriggerProgrammaticLaunchCompletion)\b")

# What takes the place of a host library's header if a kernel uses names of its types or macros.
_STAND_INS = (
    (
        re.compile(r"""[<"](?:torch|ATen|c10)/"""),
        re.compile(r"at|torch|c10|C10_\w+|CUDA_KERNEL_LOOP\w*|gpuAtomicAdd"),
        "torch.h",
    ),
    (re.compile(r"""[<"]cufft"""), re.compile(r"cufft(?:Double)?(?:Real|Complex)"), "cufft.h"),
)
_HALF_HEADERS = re.compile(r"""[<"](?:torch/|ATen/|c10/|cublas|cudnn|cusparse|cusolver|nccl)""")
INCLUDE = re.compile(r"""#\s*include\s*(<[^>\n]+>|"[^"\n]+")""")


def device_code(text: str, expression: str = "") -> str:
    """``text`` with all host-only code replaced by spaces, so that line numbers are unchanged.

    Kernels, device functions and variables are kept with all that they and ``expression`` mention: structs, templates,
    constants, macros. Host functions are removed unless constexpr, as are includes of host headers (iostream, vector,
    torch/...).
    """
    return prune(text, more=identifiers(expression), keep=_keep_for_nvrtc)


def _keep_for_nvrtc(name: str, words: frozenset[str]) -> bool:
    """Keep `<algorithm>` and other headers of ``NVRTC_HEADERS`` if a kept declaration uses ``std``."""
    if is_host_header(name):
        return is_standard(name) and "std" in words and (includes.NVRTC_HEADERS / name.strip("<>")).is_file()
    return True


def identifiers(expression: str) -> set[str]:
    """The identifiers of a C++ expression."""
    return {token.text for token in lex(expression, directives=False) if token.kind == "identifier"}


def implied_headers(text: str, expression: str = "") -> tuple[str, ...]:
    """The headers that a kernel needs without an `#include`.

    They are the header of ``__half`` and ``__nv_bfloat16`` and that of the functions of programmatic dependent launch.
    A template for every dtype names the 16-bit types only in its arguments (``scale<__half>``). A source that sets
    macros of their headers (``__CUDA_NO_HALF_OPERATORS__``) includes them itself.
    """
    named = _HALF_NAME.search(f"{expression}\n{text}") is not None and "__CUDA_NO_" not in text
    dependent = _DEPENDENT_LAUNCH.search(text) is not None
    return (*["cuda_bf16.h"] * named, *["cuda_device_runtime_api.h"] * dependent)


def keep_device_headers(name: str, words: frozenset[str]) -> bool:
    """True for `<name>` or `"name"` unless it contains host code only."""
    return not is_host_header(name)


def prune(
    text: str,
    roots: Iterable[str] | None = None,
    *,
    more: Iterable[str] = (),
    keep: Callable[[str, frozenset[str]], bool] = keep_device_headers,
) -> str:
    """:func:`device_code` reduced to the declarations that ``roots`` need (None: all kernels and device declarations).

    ``more`` are names that are needed too. ``keep`` is called with each included header, `<name>` or `"name"`, and the
    words of the declarations that are kept; an `#include` for which it returns False is removed.
    """
    tokens = lex(text)
    defined = macros(tokens)
    found = declarations(significant(tokens), defined)
    if roots is None:
        wanted = {name for d in found if d.device and (d.kind in ("function", "variable")) for name in d.names}
        wanted |= {name for d in found if d.kind == "other" and d.device for name in d.words}
    else:
        wanted = set(roots)
    wanted |= set(more)
    kept = needed(found, defined, wanted)
    kept |= needed(found, defined, _unroll_counts(tokens, [found[index] for index in kept]))
    calls = {index for index, d in enumerate(found) if d.tokens[0].text in defined and _expands_to_device(d, defined)}
    kept |= calls
    for index in calls:
        kept |= needed(found, defined, found[index].words)
    words: frozenset[str] = frozenset().union(*(found[index].words for index in kept))
    ranges = [(d.start, d.end) for index, d in enumerate(found) if index not in kept]
    for index in kept:
        if found[index].kind == "record" and found[index].body:
            ranges += _host_members(found[index], defined)
    dropped: list[Token] = []
    for token in tokens:
        include = INCLUDE.match(token.text) if token.kind == "directive" else None
        if (include and not keep(include[1], words)) or (token.kind == "directive" and _WARNING.match(token.text)):
            dropped.append(token)
            ranges.append((token.start, token.end))
    result = _blanked(text, ranges, [t for t in tokens if t.kind == "directive" and t not in dropped])
    declared = {name for declaration in found for name in declaration.scope}
    for token in reversed(dropped):
        stand_in = "" if "c10" in declared else _stand_in(token, words)  # load_inline declares PyTorch's types itself
        if stand_in:
            result = result[: token.start] + stand_in + result[token.end :]
    return result


# These suppress a warning about the next declaration; NVRTC refuses them where `prune` has removed the declaration.
_WARNING = re.compile(r"#\s*pragma\s+(?:nv_exec_check_disable|hd_warning_disable)\b")


def _unroll_counts(tokens: Sequence[Token], kept: Sequence[Declaration]) -> set[str]:
    """The names in `#pragma unroll N` and `_Pragma("unroll N")` inside the ``kept`` declarations."""
    names = set()
    for token in tokens:
        match = _UNROLL.match(token.text) if token.kind in ("directive", "string") else None
        if match and any(declaration.start < token.start < declaration.end for declaration in kept):
            names |= identifiers(match[1])
    return names


_UNROLL = re.compile(r'(?:#[ \t]*pragma[ \t]+|")unroll\b([^"\n]*)')


def _stand_in(include: Token, words: frozenset[str]) -> str:
    """The `#include` that takes the place of a host library's, or ""."""
    for library, names, header in _STAND_INS:
        if library.search(include.text) and any(names.fullmatch(word) for word in words):
            return f"#include <warpwise/host/{header}>"
    return "#include <cuda_bf16.h>" if _HALF_HEADERS.search(include.text) and _HALF_TYPES & words else ""


def is_host_header(name: str) -> bool:
    """True if `<name>` or `"name"` is a header that contains host code only."""
    return _HOST_HEADER.fullmatch(name.strip('<>"')) is not None


def is_standard(name: str) -> bool:
    """True for `<vector>` and other headers of the C++ library."""
    return name.startswith("<") and re.fullmatch(r"[a-z_]+", name.strip("<>")) is not None


def _expands_to_device(declaration: Declaration, defined: dict[str, Macro]) -> bool:
    macro = defined[declaration.tokens[0].text]
    return macro.function and declaration.kind in ("other", "variable", "function") and declaration.device


def _host_members(record: Declaration, defined: dict[str, Macro]) -> list[tuple[int, int]]:
    """Member functions that are neither device code nor constexpr: those with a body, and those of PyTorch's types."""
    if record.body is None:
        return []
    inside = record.tokens[record.body[0] + 1 : record.body[1]]
    ranges = []
    for member in declarations(inside, defined, record=True):
        constant = any(t.text in ("constexpr", "consteval") for t in member.tokens[: member.head])
        host = member.body is not None or ("Tensor" in member.words and not member.words.isdisjoint({"at", "torch"}))
        if member.kind == "function" and host and not member.device and not constant:
            ranges.append((member.start, member.end))
        elif member.kind == "record" and member.body:
            ranges += _host_members(member, defined)
    return ranges


def _blanked(text: str, ranges: list[tuple[int, int]], directives: list[Token]) -> str:
    """Blank the ``ranges`` except for directives inside them, so that an `#if` keeps its `#endif`."""
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


@functools.lru_cache(maxsize=1)
def code_digest() -> str:
    """A digest of this folder's modules, which determine what ``device_code`` and ``prune`` return.

    Cache keys of compiled kernels hold it: reading the modules is faster than extracting device code at every load.
    """
    return cache.key(*(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))
