"""Kernel source to a shared library for the CPU, kept in the cache."""

from __future__ import annotations

import difflib
import functools
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpwise import cache
from warpwise.cuda.emulator import preprocess
from warpwise.cuda.emulator.rewrite import ABSENT, rewrite
from warpwise.cuda.errors import CompileError, UnsupportedFeature
from warpwise.cuda.lexer import lex
from warpwise.cuda.source import kernel_of, kernels, prune

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
SHARED_INCLUDE = HERE.parent / "include"  # device code of this package for every kernel: #include <warpwise/...>

_SANITIZERS = "bounds,alignment,integer-divide-by-zero,shift-exponent"


@dataclass(frozen=True)
class Build:
    """A kernel compiled for the CPU.

    ``library`` is the .so; ``file`` and ``text`` are the user's, for messages; ``function_type`` is the kernel's C++ type
    ("void (*)(int, float const*, float*)"), ``sizes`` the bytes of each parameter.
    """

    library: Path
    file: str
    text: str
    expression: str
    function_type: str
    sizes: tuple[int, ...]
    checked: bool


def build(
    text: str,
    file: str,
    expression: str,
    *,
    include: Sequence[Path] = (),
    define: Mapping[str, object] = {},
    target: str = "sm_90",
    checked: bool = True,
) -> Build:
    """Compile the kernel that ``expression`` names ("ns::scale<float, 4>"), or fetch it from the cache.

    ``checked`` has every access, array index, division and shift call the runtime. Raises CompileError: the compiler's
    message with the lines of ``file``, or which kernels there are, or which compiler to install.
    """
    from warpwise.cuda.emulator import runtime  # loads the runtime's library

    folders = preprocess.search_path(file, [*include, SHARED_INCLUDE])
    headers = preprocess.user_headers(text, folders)
    compiler = _compiler()
    flags = _flags(compiler, checked)
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
        _headers_digest(),
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
        _compile(unit, target_path, compiler, flags, library, file, text, expression)
        stored = _facts(target_path)
        cache.atomic_write(facts, json.dumps(stored))
    return Build(target_path, file, text, expression, stored["type"], tuple(stored["sizes"]), checked)


def _translation_unit(
    text: str,
    file: str,
    expression: str,
    folders: Sequence[Path],
    headers: Sequence[str],
    macros: str,
    compiler: tuple[str, ...],
) -> str:
    roots = {token.text for token in lex(expression, directives=False) if token.kind == "identifier"}
    if headers or preprocess.wants(text):
        text = preprocess.expand(text, file, folders, macros, compiler)
    _check_name(text, file, expression)
    rewritten = rewrite(prune(text, roots, host_headers=True), file)
    table = ", ".join([*rewritten.variables, "{}"])
    return (
        f'#include "warpwise_device.h"\n{macros}\n#line 1 {json.dumps(file, ensure_ascii=False)}\n{rewritten.text}\n'
        f'#line 1 "<warpwise entry>"\nWW_ENTRY({expression})\nWW_GLOBALS({table})\n'
    )


def _check_name(text: str, file: str, expression: str) -> None:
    """Refuse an expression that mentions no name of the source, before the compiler says so less clearly."""
    if "__global__" not in text:
        raise CompileError(f"{file}: no __global__ function in this source, so no kernel {expression!r}")
    names = [token.text for token in lex(expression, directives=False) if token.kind == "identifier"]
    if not names:
        raise CompileError(f"{file}: {expression!r} is no name of a kernel, such as 'scale<float>'")
    found = kernels(text)
    if kernel_of(expression, found) is None and not any(re.search(rf"\b{name}\b", text) for name in names[:1]):
        raise CompileError(f"{file}: no kernel {names[0]!r}{_instead(names[0], list(found))}")


def _instead(name: str, found: Sequence[str]) -> str:
    if not found:
        return ""
    near = difflib.get_close_matches(name, [each.rsplit("::", 1)[-1] for each in found], n=3)
    return f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(found[:12])}"


def _definitions(define: Mapping[str, object], target: str) -> str:
    """`#define` lines, after the device headers so that these can be precompiled."""
    match = re.fullmatch(r"(?:sm|compute)_(\d+)(\d)[af]?", target)
    if match is None:
        raise CompileError(f"target must read like 'sm_90', got {target!r}")
    lines = [f"#define __CUDA_ARCH__ {int(match[1])}{match[2]}0"]
    for name, value in define.items():
        spelled = "" if value is None else int(value) if isinstance(value, bool) else value
        lines.append(f"#define {name} {spelled}")
    return "\n".join(lines)


# ---- The compiler


@functools.lru_cache(maxsize=1)
def _find_compiler(named: str | None, path: str) -> tuple[str, ...]:
    if named:
        words = named.split()
        if shutil.which(words[0]) is None:
            raise CompileError(f"WARPWISE_CXX names {named!r}, which is no program here")
        return tuple(words)
    for program in ("g++", "clang++"):
        if shutil.which(program):
            return (program,)
    try:
        import ziglang
    except ImportError:
        raise CompileError(
            "running a kernel on the CPU needs a C++17 compiler: install g++ (apt install g++, dnf install gcc-c++), "
            "or `pip install ziglang`, or set WARPWISE_CXX"
        ) from None
    return (str(Path(ziglang.__file__).parent / "zig"), "c++")


def _compiler() -> tuple[str, ...]:
    return _find_compiler(os.environ.get("WARPWISE_CXX"), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _version(compiler: tuple[str, ...]) -> str:
    result = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
    return result.stdout


# -ffp-contract=fast with an FMA unit contracts a * b + c as nvcc does; no other arithmetic is relaxed.
_COMMON = (
    "-std=c++17", "-g1", "-fPIC", "-w", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=fast", "-fno-math-errno",
    "-ftrivial-auto-var-init=pattern", "-fno-omit-frame-pointer", "-fvisibility=hidden", "-fno-threadsafe-statics",
    "-fstack-clash-protection",  # a large local array meets the guard page, not another thread's stack
)  # fmt: skip
_INSTRUMENTED = ("-O1", "-fsanitize=thread", f"-fsanitize={_SANITIZERS}", "-DWW_CHECKED")


@functools.lru_cache(maxsize=8)
def _flags(compiler: tuple[str, ...], checked: bool) -> tuple[str, ...]:
    common = (*_COMMON, *_machine_flags())
    if "clang" in _version(compiler):
        # A write over a read value hides the read from clang's instrumentation unless told.
        told = ("-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-tsan-distinguish-volatile=1")
        return (*common, *_INSTRUMENTED, *told) if checked else (*common, "-O2")
    common = (*common, "-fno-gnu-unique", "-fno-trapping-math")
    if not checked:
        return (
            *common,
            "-O2",
            "-fno-tree-slp-vectorize",
        )  # which would pair an addition with a subtraction, not fuse them
    # At -O1 the pass that contracts is off unless asked for.
    return (*common, *_INSTRUMENTED, "-fexpensive-optimizations", "--param", "tsan-distinguish-volatile=1")


def _machine_flags() -> list[str]:
    """Instructions that every kernel may use here, chosen by feature and not by -march=native: same flags, same library."""
    if platform.machine() != "x86_64":
        return []
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return []
    return [f"-m{name}" for name in ("avx2", "fma", "f16c", "bmi", "bmi2", "popcnt") if name in words] + (
        ["-mlzcnt"] if "abm" in words else []
    )


@functools.lru_cache(maxsize=1)
def _headers_digest() -> str:
    files = sorted(
        path
        for path in (
            *INCLUDE.rglob("*"),
            *SHARED_INCLUDE.rglob("*"),
            HERE / "runtime" / "abi.h",
            HERE / "runtime" / "abi_extra.h",
        )
        if path.is_file()
    )
    sources = [HERE / "compiler.py", HERE / "rewrite.py", HERE / "rewrite_shared.py", HERE / "preprocess.py"]
    sources += [
        HERE.parent / name for name in ("lexer.py", "directives.py", "declarations.py", "reach.py", "source.py")
    ]
    return cache.key(*(path.read_bytes() for path in [*files, *sources]))


@functools.lru_cache(maxsize=8)
def _precompiled(compiler: tuple[str, ...], flags: tuple[str, ...]) -> Path:
    """A folder with warpwise_device.h precompiled for these flags; the first kernel of each kind makes it.

    It remembers where its headers lay, which tells their lines from a kernel's: another installation makes its own.
    """
    name = cache.key(compiler, _version(compiler), flags, INCLUDE, _headers_digest())
    folder = cache.cache_dir() / "emulator" / f"pch-{name}"
    header, precompiled = folder / "warpwise_device.h", folder / "warpwise_device.h.gch"
    with cache.made_once(precompiled) as missing:
        if missing:
            cache.atomic_write(header, f'#include "{INCLUDE / "warpwise_device.h"}"\n')
            handle, made = tempfile.mkstemp(dir=folder, suffix=".gch")
            os.close(handle)
            command = [*compiler, *flags, "-x", "c++-header", "-I", str(INCLUDE), str(header), "-o", made]
            result = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
            if result.returncode:
                Path(made).unlink(missing_ok=True)
                raise CompileError(f"{compiler[0]} cannot compile the device headers:\n{result.stderr}")
            os.replace(made, precompiled)
    return folder


def _compile(
    unit: str,
    library: Path,
    compiler: tuple[str, ...],
    flags: tuple[str, ...],
    runtime_library: Path,
    file: str,
    text: str,
    expression: str,
) -> None:
    """One compiler process from ``unit`` to ``library``; the source reaches it through its standard input."""
    handle, made = tempfile.mkstemp(dir=library.parent, suffix=".so")
    os.close(handle)
    headers = [INCLUDE, SHARED_INCLUDE]
    # The sanitizers' own libraries stay out: g++ would add them to any link, clang to none of a shared library.
    if "clang" in _version(compiler):
        own = ["-ferror-limit=8", "-fno-caret-diagnostics"]
    else:
        own = ["-fmax-errors=8", "-fno-diagnostics-show-caret"]
        own += ["-nodefaultlibs", "-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc"]
        headers.insert(0, _precompiled(compiler, flags))
    command = [
        *compiler, *flags, "-pipe", "-fdiagnostics-color=never", *(f"-I{folder}" for folder in headers),
        "-x", "c++", "-", "-x", "none", "-shared", "-o", made, str(runtime_library), *own,
        f"-Wl,-rpath,{runtime_library.parent}", "-Wl,-Bsymbolic", "-Wl,--no-undefined",
    ]  # fmt: skip
    result = subprocess.run(
        command, input=unit, capture_output=True, encoding="utf-8", errors="replace", check=False, env=_environment()
    )
    if result.returncode:
        Path(made).unlink(missing_ok=True)
        _refuse_absent(result.stderr, expression)
        raise CompileError(_readable(result.stderr, file, text, expression))
    os.replace(made, library)


def _environment() -> dict[str, str]:
    """Messages in English, whatever the user's language: some are looked into."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def _refuse_absent(message: str, expression: str) -> None:
    """Raise UnsupportedFeature where the compiler misses a library that has no stand-in on the CPU."""
    names = "|".join((*ABSENT, "atomic", "atomic_ref", "ptx"))
    missed = r"(?:has not been declared|is not a member of ['‘]cuda['’]|does not name)"
    match = re.search(rf"^(.+?:\d+):.* error: ['‘](?:cuda::)?({names})['’] {missed}", message, re.MULTILINE)
    if match:
        raise UnsupportedFeature(
            f"{match[1]}: kernel {expression} uses {match[2]}, which has no stand-in on the CPU; run it on a GPU"
        )


def _facts(library: Path) -> dict[str, object]:
    """What the library says of its kernel: the type, demangled, and the bytes of each parameter."""
    import ctypes

    loaded = ctypes.CDLL(str(library))
    loaded.ww_entry_type.restype = ctypes.c_char_p
    loaded.ww_entry_sizes.restype = ctypes.POINTER(ctypes.c_size_t)
    count = ctypes.c_size_t()
    sizes = loaded.ww_entry_sizes(ctypes.byref(count))
    return {"type": _demangle(loaded.ww_entry_type()), "sizes": [sizes[index] for index in range(count.value)]}


def _demangle(name: bytes) -> str:
    import ctypes

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


def _readable(message: str, file: str, text: str, expression: str) -> str:
    """The compiler's errors, each with the user's line under it, without the notes about generated code."""
    source = text.splitlines()
    lines = []
    for line in message.splitlines():
        match = re.match(r"(.+?):(\d+):(?:(\d+):)? (?:fatal )?(error|note): (.*)", line)
        if match is None:
            continue
        where, number, kind = match[1], int(match[2]), match[4]
        if kind == "note" and where != file:
            continue
        if where == "<warpwise entry>":
            found = kernels(text)
            lines.append(f"{file}: {expression}: {match[5]}{_known(found)}")
            continue
        lines.append(f"{where}:{number}: {kind}: {match[5]}")
        if where == file and 0 < number <= len(source):
            lines.append(f"    {source[number - 1].strip()}")
    for name in dict.fromkeys(re.findall(r"undefined reference to `([^']+)'", message)):
        lines.append(f"{name} is declared, but defined neither in this file nor in the headers it includes")
    return f"{file}: kernel {expression} does not compile:\n" + "\n".join(lines or message.splitlines()[-20:])


def _known(found: Mapping[str, object]) -> str:
    return f" (kernels in this file: {', '.join(found)})" if found else ""
