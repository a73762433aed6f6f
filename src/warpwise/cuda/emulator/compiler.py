"""Compile a kernel for the CPU into a shared library in the cache."""

from __future__ import annotations

import ctypes
import difflib
import functools
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpwise import cache, native
from warpwise.cuda.emulator import messages, runtime, toolchain, uninitialised
from warpwise.cuda.emulator.rewrite import ABSENT_HEADER, Rewritten, rewrite
from warpwise.cuda.emulator.toolchain import INCLUDE, SHARED_INCLUDE
from warpwise.cuda.errors import CompileError
from warpwise.cuda.launch.origin import Origin
from warpwise.cuda.source import flatten
from warpwise.cuda.source.device_code import identifiers, is_host_header, is_standard, prune
from warpwise.cuda.source.headers import find, refuse_missing
from warpwise.cuda.source.kernels import KernelDeclaration, kernel_of, kernels
from warpwise.cuda.source.lexer import lex


@dataclass(frozen=True)
class Build:
    """A kernel compiled for the CPU.

    ``library`` is the shared library. ``file`` and ``text`` are the user's source, for messages. ``function_type`` is
    the kernel's C++ type ("void (*)(int, float const*, float*)"), and ``sizes`` the bytes of each parameter.
    ``files`` are the headers whose text the library holds. ``origin`` is the Python file that holds the source.
    ``uninitialised`` holds the lines and names of local variables that are read before they are written.
    """

    library: Path
    file: str
    text: str
    expression: str
    function_type: str
    sizes: tuple[int, ...]
    checked: bool
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

    With ``checked`` every access, array index, division and shift is checked by the runtime; with ``numbers`` also the
    results of arithmetic. Messages quote the lines
    of ``shown`` if it is given, else of ``text``. Raises ``CompileError`` with the compiler's messages and the lines of
    ``file``, the names of the kernels, or the compiler to install.
    """
    quoted = text if shown is None else shown
    folders = flatten.search_path(file, [*include, SHARED_INCLUDE])
    headers = flatten.user_headers(text, folders)
    compiler = toolchain.command()
    flags = toolchain.flags(compiler, checked, numbers)
    library = runtime.library()
    macros = _definitions(define, target)
    name = cache.key(
        text,
        file,
        expression,
        *headers,
        *map(str, folders),
        macros,
        compiler,
        flags,
        library,
        toolchain.headers_digest(),
        checked,
    )
    folder = cache.cache_dir() / "emulator"
    target_path = folder / f"{name}.so"
    facts = folder / f"{name}.json"
    try:
        stored = json.loads(facts.read_text())
        found = target_path.exists()
    except (FileNotFoundError, json.JSONDecodeError):
        found = False
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        unit = _translation_unit(text, file, expression, folders, headers, macros, compiler)
        warnings = _compile(unit, target_path, compiler, flags, library, file, quoted, expression)
        stored = {
            **_facts(target_path),
            "uninitialised": uninitialised.reads(warnings, file, quoted),
            "files": sorted({re.sub(r"\\(.)", r"\1", name) for name in _LINE.findall(unit)} - {file, _ENTRY}),
        }
        cache.atomic_write(facts, json.dumps(stored))
    unset = tuple((line, name) for line, name in stored.get("uninitialised", ()))
    return Build(
        target_path,
        file,
        quoted,
        expression,
        stored["type"],
        tuple(stored["sizes"]),
        checked,
        tuple(stored["files"]),
        uninitialised=unset,
    )


def _translation_unit(
    text: str,
    file: str,
    expression: str,
    folders: Sequence[Path],
    headers: Sequence[str],
    macros: str,
    compiler: tuple[str, ...],
) -> str:
    if headers or flatten.wants(text) or _QUOTED.search(text):
        known = f"#define __WARPWISE__ 1\n{macros}"
        text, expression = flatten.expand(text, file, folders, known, compiler, expression)
        macros = macros.partition("\n")[0]
    _check_name(text, file, expression)
    searched = (*folders, INCLUDE, *native.header_folders(compiler))
    rewritten = _rewritten(text, file, frozenset(identifiers(expression)), searched)
    refuse_missing(rewritten.text, file, searched)
    table = ", ".join([*rewritten.variables, "{}"])
    return (
        f'#include "warpwise_device.h"\n{macros}\n#line 1 {json.dumps(file, ensure_ascii=False)}\n{rewritten.text}\n'
        f'#line 1 "{_ENTRY}"\nWW_ENTRY({expression})\nWW_GLOBALS({table})\n'
    )


# The kernels of a file differ in template arguments only: their builds share these two steps.
@functools.lru_cache(maxsize=8)
def _rewritten(text: str, file: str, roots: frozenset[str], folders: tuple[Path, ...]) -> Rewritten:
    return rewrite(prune(text, roots, keep=lambda name, words: _keep(name, words, folders)), file)


@functools.lru_cache(maxsize=8)
def _kernels(text: str) -> dict[str, KernelDeclaration]:
    return kernels(text)


_ENTRY = "<warpwise entry>"
_LINE = re.compile(r'^[ \t]*#[ \t]*(?:line[ \t]+)?\d+[ \t]+"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"', re.MULTILINE)


def _keep(name: str, words: frozenset[str], folders: Sequence[Path]) -> bool:
    """Keep headers of the C++ library that the kernel uses, and all others that are no host library's and are found."""
    if is_host_header(name):
        return is_standard(name) and "std" in words
    return name.startswith('"') or ABSENT_HEADER.match(f"#include {name}") is not None or bool(find(name, folders))


def _check_name(text: str, file: str, expression: str) -> None:
    """Raise ``CompileError`` if the expression names nothing in the source: the compiler's message is less clear."""
    if "__global__" not in text:
        raise CompileError(f"{file}: no __global__ function in this source, so no kernel {expression!r}")
    names = [token.text for token in lex(expression, directives=False) if token.kind == "identifier"]
    if not names:
        raise CompileError(f"{file}: {expression!r} is not a kernel's name, such as 'scale<float>'")
    found = _kernels(text)
    if kernel_of(expression, found) is None and not any(re.search(rf"\b{name}\b", text) for name in names[:1]):
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


def _compile(
    unit: str,
    library: Path,
    compiler: tuple[str, ...],
    flags: tuple[str, ...],
    runtime_library: Path,
    file: str,
    text: str,
    expression: str,
) -> str:
    """Compile ``unit``, passed on standard input, into ``library``. Returns the compiler's warnings."""
    handle, made = tempfile.mkstemp(dir=library.parent, suffix=".so")
    os.close(handle)
    headers = [INCLUDE, SHARED_INCLUDE]
    wrapped = (*_WRAPPED, *(toolchain.CHECKED_FUNCTIONS if "-DWW_NUMBERS" in flags else ()))
    # Do not link the sanitizers' libraries: g++ adds them unless -nodefaultlibs is given, clang does not.
    if native.is_clang(compiler):
        own = ["-ferror-limit=8", "-fno-caret-diagnostics", *uninitialised.CLANG_FLAGS]
    else:
        own = ["-fmax-errors=8", "-fno-diagnostics-show-caret", *uninitialised.GNU_FLAGS]
        own += ["-nodefaultlibs", "-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc", *toolchain.linker()]
        headers.insert(0, toolchain.precompiled(compiler, flags))
    command = [
        *compiler, *(flag for flag in flags if flag != "-w"), "-pipe", "-fdiagnostics-color=never",
        *(f"-I{folder}" for folder in headers),
        "-x", "c++", "-", "-x", "none", "-shared", "-o", made, str(runtime_library), *own,
        *(f"-Wl,--wrap={name}" for name in wrapped),
        f"-Wl,-rpath,{runtime_library.parent}", "-Wl,-Bsymbolic", "-Wl,--no-undefined",
    ]  # fmt: skip
    result = subprocess.run(
        command,
        input=unit,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        env=toolchain.environment(),
    )
    if result.returncode:
        Path(made).unlink(missing_ok=True)
        errors = uninitialised.without_warnings(result.stderr)
        messages.refuse_absent(errors, file, text, expression)
        raise CompileError(messages.readable(errors, file, text, expression))
    os.replace(made, library)
    return result.stderr


def _facts(library: Path) -> dict[str, object]:
    """Return the demangled type of the library's kernel and the size of each parameter in bytes."""
    loaded = ctypes.CDLL(str(library))
    loaded.ww_entry_type.restype = ctypes.c_char_p
    loaded.ww_entry_sizes.restype = ctypes.POINTER(ctypes.c_size_t)
    count = ctypes.c_size_t()
    sizes = loaded.ww_entry_sizes(ctypes.byref(count))
    return {"type": _demangle(loaded.ww_entry_type()), "sizes": [sizes[index] for index in range(count.value)]}


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
