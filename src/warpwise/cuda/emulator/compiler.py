"""Compile a kernel for the CPU into a shared library in the cache."""

from __future__ import annotations

import ctypes
import difflib
import functools
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpwise import cache, native
from warpwise.cuda.emulator import messages, runtime, toolchain, uninitialised
from warpwise.cuda.emulator.rewrite import ABSENT_HEADER, Rewritten, rewrite
from warpwise.cuda.emulator.toolchain import INCLUDE, SHARED_INCLUDE
from warpwise.cuda.errors import CompileError
from warpwise.cuda.launch.origin import Origin
from warpwise.cuda.source import flatten
from warpwise.cuda.source.device_code import identifiers, is_host_header, is_standard, prune
from warpwise.cuda.source.headers import find, refuse_missing
from warpwise.cuda.source.includes import is_toolkit_folder, is_toolkit_header
from warpwise.cuda.source.kernels import KernelDeclaration, kernel_of, kernels, selector
from warpwise.cuda.source.lexer import lex


@dataclass(frozen=True)
class Build:
    """A kernel compiled for the CPU.

    ``library`` is the shared library and ``entry`` the number of the kernel in it. ``file`` and ``text`` are the user's
    source, for messages. ``function_type`` is the kernel's C++ type ("void (*)(int, float const*, float*)"), and
    ``sizes`` the bytes of each parameter. ``files`` are the headers whose text the library holds. ``origin`` is the
    Python file that holds the source. ``uninitialised`` holds the lines and names of local variables that are read
    before they are written.
    """

    library: Path
    file: str
    text: str
    expression: str
    function_type: str
    sizes: tuple[int, ...]
    checked: bool
    entry: int = 0
    files: tuple[str, ...] = ()
    origin: Origin | None = None
    uninitialised: tuple[tuple[int, str], ...] = ()


def build(
    text: str,
    file: str,
    expression: str,
    *,
    include: Sequence[Path] = (),
    define: Mapping[str, object] = {},
    target: str = "sm_90",
    checked: bool = True,
    numbers: bool = False,
    shown: str | None = None,
) -> Build:
    """Return the kernel that ``expression`` names ("ns::scale<float, 4>"), compiled on a cache miss.

    With ``checked`` the runtime checks every access, array index, division and shift; with ``numbers`` also the results
    of arithmetic. Messages quote the lines of ``shown`` if it is given, else of ``text``. Raises ``CompileError`` with
    the compiler's messages and the lines of ``file``, the names of the kernels, or the compiler to install.
    """
    quoted = text if shown is None else shown
    source = _Source.of(text, file, include, define, target, checked, numbers)
    facts = source.stored(expression)
    if facts is None:
        library = source.folder / f"{source.key(expression)}.so"
        unit, _ = source.unit([expression])
        warnings = _compile(source, unit, library, quoted, expression)
        facts = source.store(expression, library, 0, unit, uninitialised.reads(warnings, file, quoted))
    return Build(
        source.folder / facts["library"],
        file,
        quoted,
        expression,
        facts["type"],
        tuple(facts["sizes"]),
        checked,
        facts["entry"],
        tuple(facts["files"]),
        uninitialised=tuple((line, name) for line, name in facts["uninitialised"]),
    )


def build_together(
    text: str,
    file: str,
    expressions: Sequence[str],
    *,
    include: Sequence[Path] = (),
    define: Mapping[str, object] = {},
    target: str = "sm_90",
    checked: bool = True,
    shown: str | None = None,
) -> None:
    """Compile those of ``expressions`` that are not in the cache by one run of the compiler, for later ``build`` calls.

    One run for all takes a third of the time of one run per kernel. Nothing is built if a kernel does not compile or
    reads an uninitialised variable, because only ``build`` attributes messages to kernels, or if the source has global
    variables, because each kernel has its own.
    """
    source = _Source.of(text, file, include, define, target, checked, False)
    missing = [expression for expression in dict.fromkeys(expressions) if source.stored(expression) is None]
    for start in range(0, len(missing), _MAX_TOGETHER):
        some = missing[start : start + _MAX_TOGETHER]
        if len(some) == 1:
            return
        library = source.folder / f"{cache.key(*map(source.key, some))}.so"
        try:
            unit, has_variables = source.unit(some)
            if has_variables:
                return
            warnings = _compile(source, unit, library, text, some[0])
        except CompileError:
            return
        if uninitialised.reads(warnings, file, text if shown is None else shown):
            library.unlink(missing_ok=True)
            return
        for number, expression in enumerate(some):
            source.store(expression, library, number, unit, [])


_MAX_TOGETHER = 32  # bounds the compiler's memory


@dataclass(frozen=True)
class _Source:
    """A source with the options of ``build``."""

    text: str
    file: str
    folders: tuple[Path, ...]
    headers: tuple[str, ...]
    macros: str
    compiler: tuple[str, ...]
    flags: tuple[str, ...]
    runtime_library: Path
    folder: Path
    checked: bool

    @classmethod
    def of(
        cls,
        text: str,
        file: str,
        include: Sequence[Path],
        define: Mapping[str, object],
        target: str,
        checked: bool,
        numbers: bool,
    ) -> _Source:
        folders = flatten.search_path(file, [*include, SHARED_INCLUDE])
        headers = flatten.user_headers(text, folders)
        compiler = toolchain.command()
        flags = toolchain.flags(compiler, checked, numbers)
        macros = _definitions(define, target)
        folder = cache.cache_dir() / "emulator"
        library = runtime.library()
        return cls(text, file, tuple(folders), tuple(headers), macros, compiler, flags, library, folder, checked)

    def key(self, expression: str) -> str:
        return cache.key(
            self.text,
            self.file,
            expression,
            *self.headers,
            *map(str, self.folders),
            self.macros,
            self.compiler,
            self.flags,
            self.runtime_library,
            toolchain.headers_digest(),
            self.checked,
        )

    def stored(self, expression: str) -> dict[str, Any] | None:
        """Return what ``store`` wrote, or None if the kernel is not built."""
        try:
            facts: dict[str, Any] = json.loads((self.folder / f"{self.key(expression)}.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return facts if (self.folder / facts["library"]).exists() else None

    def store(
        self, expression: str, library: Path, entry: int, unit: str, unset: Sequence[tuple[int, str]]
    ) -> dict[str, Any]:
        """Write the facts of a kernel that ``library``, compiled from ``unit``, contains, and return them."""
        files = {re.sub(r"\\(.)", r"\1", name) for name in _LINE.findall(unit)} - {self.file, _ENTRY}
        facts = {
            "library": library.name,
            "entry": entry,
            **_facts(library, entry),
            "files": sorted(files),
            "uninitialised": unset,
        }
        cache.atomic_write(self.folder / f"{self.key(expression)}.json", json.dumps(facts))
        return facts

    def unit(self, expressions: Sequence[str]) -> tuple[str, bool]:
        """Return the translation unit of these kernels, and True if it has global variables."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text, macros = self.text, self.macros
        if self.headers or flatten.wants(text) or _QUOTED.search(text):
            known = f"#define __WARPWISE__ 1\n{macros}"
            listed = _SEPARATOR.join(expressions)
            text, listed = flatten.expand(text, self.file, self.folders, known, self.compiler, listed)
            expressions = [expression.strip() for expression in listed.split(_SEPARATOR.strip())]
            macros = macros.partition("\n")[0]
        for expression in expressions:
            _check_name(text, self.file, expression)
        searched = (*self.without_toolkits(), INCLUDE, *native.header_folders(self.compiler))
        roots = frozenset[str]().union(*map(identifiers, expressions))
        rewritten = _rewritten(text, self.file, roots, searched, SEPARATE in self.macros)
        refuse_missing(rewritten.text, self.file, searched)
        entries = "\n".join(
            f"WW_ENTRY({number}, {selector(expression, rewritten.text)})"
            for number, expression in enumerate(expressions)
        )
        table = ", ".join([*rewritten.variables, "{}"])
        unit = (
            f'#include "warpwise_device.h"\n{macros}\n#line 1 {json.dumps(self.file, ensure_ascii=False)}\n'
            f'{rewritten.text}\n#line 1 "{_ENTRY}"\n{entries}\nWW_GLOBALS({table})\n'
        )
        return unit, bool(rewritten.variables)

    def without_toolkits(self) -> list[Path]:
        """The folders of headers, without those of a CUDA toolkit: the emulator has its own versions of its headers."""
        return [folder for folder in self.folders if not is_toolkit_folder(folder)]

    def left_out(self) -> list[str]:
        """The included headers of the CUDA toolkit that the emulator has no version of."""
        written = [match[1] for text in (self.text, *self.headers) for match in _INCLUDED.finditer(text)]
        searched = (*self.without_toolkits(), INCLUDE)
        names = [name.strip('<>"') for name in dict.fromkeys(written) if find(name, searched) is None]
        return [name for name in names if is_toolkit_header(name)]


# Defined for the files of a program of several files: one may declare `extern` what another defines.
SEPARATE = "__WARPWISE_SEPARATE__"
_SEPARATOR = " ;; "  # between expressions for the preprocessor


# The kernels of a file differ in template arguments only: their builds share these two steps.
@functools.lru_cache(maxsize=8)
def _rewritten(text: str, file: str, roots: frozenset[str], folders: tuple[Path, ...], separate: bool) -> Rewritten:
    pruned = prune(text, roots, keep=lambda name, words: _keep(name, words, folders))
    return rewrite(pruned, file, separate=separate)


@functools.lru_cache(maxsize=8)
def _kernels(text: str) -> dict[str, KernelDeclaration]:
    return kernels(text)


_ENTRY = "<warpwise entry>"
_LINE = re.compile(r'^[ \t]*#[ \t]*(?:line[ \t]+)?\d+[ \t]+"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_LIBRARIES = ('"cub/', '"cuda/', '"nv/')
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(<[^>\n]+>|"[^"\n]+")', re.MULTILINE)
_QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"', re.MULTILINE)


def _keep(name: str, words: frozenset[str], folders: Sequence[Path]) -> bool:
    """True for a header of the C++ library that the kernel uses, and for other headers that exist, except host
    libraries'.
    """
    if is_host_header(name):
        return is_standard(name) and "std" in words
    own = name.startswith('"') and not name.startswith(_LIBRARIES)
    return own or ABSENT_HEADER.match(f"#include {name}") is not None or bool(find(name, folders))


def _check_name(text: str, file: str, expression: str) -> None:
    """Raise ``CompileError`` if the expression names nothing in the source: the compiler's message is less clear."""
    if "__global__" not in text:
        raise CompileError(f"{file}: no __global__ function in this source, so no kernel {expression!r}")
    names = [token.text for token in lex(expression, directives=False) if token.kind == "identifier"]
    if not names:
        raise CompileError(f"{file}: {expression!r} is not a kernel's name, such as 'scale<float>'")
    if re.search(rf"\b{names[0]}\b", text):
        return
    found = _kernels(text)
    if kernel_of(expression, found) is None:
        raise CompileError(f"{file}: no kernel {names[0]!r}{_instead(names[0], list(found))}")


def _instead(name: str, found: Sequence[str]) -> str:
    if not found:
        return ""
    near = difflib.get_close_matches(name, [each.rsplit("::", 1)[-1] for each in found], n=3)
    return f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(found[:12])}"


def _definitions(define: Mapping[str, object], target: str) -> str:
    """Return the `#define` lines. They follow the device headers, which are precompiled without them."""
    match = re.fullmatch(r"(?:sm|compute)_(\d+)(\d)[af]?", target)
    if match is None:
        raise CompileError(f"expected a target such as 'sm_90', got {target!r}")
    lines = [f"#define __CUDA_ARCH__ {int(match[1])}{match[2]}0"]
    for name, value in define.items():
        spelled = "" if value is None else int(value) if isinstance(value, bool) else value
        lines.append(f"#define {name} {spelled}")
    return "\n".join(lines)


# malloc, free, new and delete of device code, which runtime/heap.cpp implements.
_WRAPPED = ("malloc", "free", "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm")


def _compile(source: _Source, unit: str, library: Path, text: str, expression: str) -> str:
    """Compile ``unit``, passed on standard input, into ``library``. Returns the compiler's warnings."""
    compiler, flags, file = source.compiler, source.flags, source.file
    handle, made = tempfile.mkstemp(dir=library.parent, suffix=".so")
    os.close(handle)
    headers = [INCLUDE, SHARED_INCLUDE]
    wrapped = (*_WRAPPED, *(toolchain.CHECKED_FUNCTIONS if "-DWW_NUMBERS" in flags else ()))
    linked = (
        "-shared", "-o", made, str(source.runtime_library), *(f"-Wl,--wrap={name}" for name in wrapped),
        f"-Wl,-rpath,{source.runtime_library.parent}", "-Wl,-Bsymbolic", "-Wl,--no-undefined",
    )  # fmt: skip
    # Do not link the sanitizers' libraries: g++ adds them unless -nodefaultlibs is given, ziglang if -fsanitize is.
    clang = native.is_clang(compiler)
    if clang:
        own = ["-ferror-limit=8", "-fno-caret-diagnostics", *uninitialised.CLANG_FLAGS]
    else:
        own = ["-fmax-errors=8", "-fno-diagnostics-show-caret", *uninitialised.GNU_FLAGS]
        own += ["-nodefaultlibs", "-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc", *toolchain.linker()]
        headers.insert(0, toolchain.precompiled(compiler, flags))
    command = [
        *compiler, *(flag for flag in flags if flag != "-w"), "-pipe", "-fdiagnostics-color=never",
        *(f"-I{folder}" for folder in headers),
        "-x", "c++", "-", *(("-c", "-o", f"{made}.o") if clang else ("-x", "none", *linked)), *own,
    ]  # fmt: skip
    run = functools.partial(native.run, input=unit, encoding="utf-8", errors="replace", env=toolchain.environment())
    result = run(command)
    if result.returncode and not clang and messages.is_permitted(result.stderr):
        result = run([*command, "-fpermissive"])
    if clang and not result.returncode:
        link = [*compiler, f"{made}.o", "-fno-sanitize=undefined", *linked]
        linker = native.run(link)
        result.returncode, result.stderr = linker.returncode, result.stderr + linker.stderr
        Path(f"{made}.o").unlink()
    if result.returncode:
        Path(made).unlink(missing_ok=True)
        errors = uninitialised.without_warnings(result.stderr)
        messages.refuse_absent(errors, file, text, expression, source.left_out())
        raise CompileError(messages.readable(errors, file, text, expression))
    os.replace(made, library)
    return result.stderr


def _facts(library: Path, entry: int) -> dict[str, object]:
    """Return the demangled type of a kernel of the library and the size of each parameter in bytes."""
    loaded = ctypes.CDLL(str(library))
    function_type, sizes_of = loaded[f"ww_entry_type_{entry}"], loaded[f"ww_entry_sizes_{entry}"]
    function_type.restype = ctypes.c_char_p
    sizes_of.restype = ctypes.POINTER(ctypes.c_size_t)
    count = ctypes.c_size_t()
    sizes = sizes_of(ctypes.byref(count))
    return {"type": _demangle(function_type()), "sizes": [sizes[index] for index in range(count.value)]}


def _demangle(name: bytes) -> str:
    runtime = ctypes.CDLL("libstdc++.so.6")
    runtime.__cxa_demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    text = runtime.__cxa_demangle(name, None, None, ctypes.byref(status))
    if status.value or not text:
        return name.decode()
    try:
        return ctypes.string_at(text).decode()
    finally:
        libc = ctypes.CDLL(None)
        libc.free.argtypes = [ctypes.c_void_p]
        libc.free(text)
