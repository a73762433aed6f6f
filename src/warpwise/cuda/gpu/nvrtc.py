"""Compilation of CUDA C++ to machine code by NVRTC, through NVIDIA's cuda.core. Needs no GPU and no driver."""

from __future__ import annotations

import functools
import importlib.metadata
import io
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpwise import cache, native
from warpwise.cuda.errors import CompileError
from warpwise.cuda.gpu import nvcc
from warpwise.cuda.gpu.compiled import Compiled, resources, synchronises_grid, waits_for_previous
from warpwise.cuda.gpu.flat_source import FlatSource
from warpwise.cuda.source import includes
from warpwise.cuda.source.device_code import code_digest, device_code, implied_headers
from warpwise.cuda.source.kernels import address, selector
from warpwise.cuda.source.signature import demangle
from warpwise.device.profiles import parse_target

if TYPE_CHECKING:
    from warpwise.cuda.launch.module import Module

# The symbol of its instantiation with a kernel's type contains that type; demangled, it gives the parameter types.
_SIGNATURE = "\ntemplate <class F> __global__ void ww_signature() {}\n"
_FORMAT = 4  # of cache entries

# Functions without __device__ are device code, since nvcc allows constant expressions to call constexpr functions.
# Diagnostic 177 (unused variable) is expected, as kernels are compiled one by one; 47 is a macro redefinition, which
# libcu++ does to INFINITY.
_OPTIONS = {
    "std": "c++17",
    "lineinfo": True,
    "device_int128": True,
    "ptxas_options": "-v",
    "device_as_default_execution_space": True,
    "diag_suppress": [177, 47],
    "no_cache": True,  # NVRTC's own cache does not keep the assembler's report; ours does
}
_importing = threading.Lock()
_NEEDED = "pip install 'warpwise[cuda]' (cuda-core, cuda-bindings, nvidia-cuda-nvrtc)"


def architecture(target: str) -> str:
    """The NVRTC architecture of a target; from sm_90 on the architecture-specific one (sm_90a)."""
    major, minor = parse_target(target)
    name = f"sm_{major}{minor}"
    return f"{name}a" if (major, minor) >= (9, 0) else name


def compile(module: Module, expression: str, target: str, constants: tuple[str, ...] = ()) -> Compiled:
    """Compile the kernel that ``expression`` names, or load it from the cache.

    What NVRTC refuses is compiled by nvcc, if it is installed. ``constants`` are C++ names of variables whose symbols
    the result contains. Raises ``CompileError`` with the compiler's message, and ``ImportError`` that names the
    packages to install if NVRTC is missing.
    """
    arch = architecture(target)
    headers = includes.included(module.text, module.include)
    key = cache.key(
        _FORMAT,
        sorted(_OPTIONS.items()),
        code_digest(),
        _added_headers_digest(),
        includes.digest(module.text, headers),
        _named(module.file),
        expression,
        arch,
        sorted(module.define.items()),
        constants,
        toolchain(),
        *map(str, module.include),
        *map(str, headers),
    )
    path = cache.cache_dir() / "cubin" / f"{key}.bin"
    kept = cache.load(path)
    if kept is not None:
        facts_line, _, cubin = kept.partition(b"\n")
        facts = json.loads(facts_line)
        by = facts.pop("by")
        if facts["compiler"] == "nvrtc" or by == nvcc.identity():
            return Compiled(**facts, cubin=cubin)
    by = ""
    try:
        made = _compile(module, device_code(module.text, expression), expression, arch, constants)
    except CompileError as refusal:
        made, by = _compile_flattened(module, expression, arch, constants, refusal), nvcc.identity()
    facts = {name: value for name, value in asdict(made).items() if name != "cubin"}
    cache.save(path, json.dumps({**facts, "by": by}).encode() + b"\n" + made.cubin)
    return made


def _compile_flattened(
    module: Module, expression: str, arch: str, constants: tuple[str, ...], refusal: CompileError
) -> Compiled:
    """Compile the source with the user's headers inserted and their host code removed: by NVRTC, else by nvcc."""
    try:
        source = FlatSource(module, expression, arch, constants)
    except native.NoCompiler as error:
        raise CompileError(f"{refusal}\nnvcc might compile it, but needs a C++ compiler: {error}") from None
    text = source.pruned((*includes.toolkit(), includes.NVRTC_HEADERS), strict=True)
    try:
        return replace(_compile(module, text, source.expression, arch, constants, define={}), expression=expression)
    except CompileError as error:
        if nvcc.find() is None:
            raise CompileError(f"{source.with_advice(str(error), text)}\n{nvcc.ADVICE}") from None
    return nvcc.compile(source)


def _named(file: str) -> str:
    """The name of the source in the line table of the cubin, which holds the absolute path of a file."""
    path = Path(file)
    return str(path.absolute()) if path.is_file() else file


@functools.lru_cache(maxsize=1)
def _added_headers_digest() -> str:
    """A digest of the headers that are added to a source: the standard ones, and those in place of host libraries'."""
    files = sorted((*includes.NVRTC_HEADERS.iterdir(), *(includes.DEVICE_HEADERS / "warpwise" / "host").iterdir()))
    return cache.key(*(part for file in files for part in (file.name, file.read_bytes())))


def toolchain() -> tuple[str, ...]:
    """The versions of NVRTC and of the toolkit's headers, which determine the machine code beside the source."""
    return (*_versions(), *(str(folder) for folder in includes.toolkit()))


@functools.lru_cache(maxsize=1)
def _versions() -> tuple[str, ...]:
    found = []
    for stem in ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl"):
        for name in (stem, f"{stem}-cu13", f"{stem}-cu12"):
            try:
                found.append(f"{name} {importlib.metadata.version(name)}")
            except importlib.metadata.PackageNotFoundError:
                continue
    if not found:
        # A toolkit that is not installed by pip: ask NVRTC for its version, which loads it.
        _cuda_core()
        from cuda.bindings import nvrtc

        found.append(str(nvrtc.nvrtcVersion()[1:]))
    return tuple(found)


def _cuda_core() -> Any:
    try:
        # The modules of cuda.core import each other: two threads that import it at once can see a part of it.
        with _importing:
            import cuda.bindings
            import cuda.core
    except ImportError as error:
        raise ImportError(f"compiling for a GPU needs cuda.core and NVRTC ({error}): {_NEEDED}") from error
    return cuda.core


def _compile(
    module: Module,
    text: str,
    expression: str,
    arch: str,
    constants: tuple[str, ...],
    define: Mapping[str, object] | None = None,
) -> Compiled:
    core = _cuda_core()
    define = module.define if define is None else define
    named = selector(expression, text)
    signature = f"ww_signature<decltype({address(named)})>"
    references = {name: f"&{name}" for name in constants}
    options = core.ProgramOptions(
        name=module.file,
        arch=arch,
        **_OPTIONS,
        define_macro=[(name, _macro(value)) for name, value in define.items()] or None,
        include_path=[str(folder) for folder in (*module.include, *includes.toolkit(), includes.NVRTC_HEADERS)],
        pre_include=[str(includes.NVRTC_HEADERS / "implicit.h"), *implied_headers(text, expression)],
    )
    log = io.StringIO()
    try:
        program = core.Program(text + _SIGNATURE, "c++", options)
        made = program.compile("cubin", name_expressions=[named, signature, *references.values()], logs=log)
    except Exception as error:
        if type(error).__name__ != "NVRTCError":  # cuda.core does not export this class
            raise
        raise _compile_error(module, expression, arch, str(error)) from None
    names = {
        key: symbol.decode() if isinstance(symbol, bytes) else symbol for key, symbol in made.symbol_mapping.items()
    }
    symbol, cubin = names[named], bytes(made.code)
    return Compiled(
        expression,
        arch,
        symbol,
        demangle(names[signature]),
        **resources(log.getvalue(), symbol),
        cooperative=synchronises_grid(cubin, symbol),
        programmatic=waits_for_previous(cubin, symbol),
        constants={name: names[ref] for name, ref in references.items()},
        log=log.getvalue().strip(" \0\n"),
        cubin=cubin,
        compiler="nvrtc",
    )


def _macro(value: object) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _compile_error(module: Module, expression: str, arch: str, message: str) -> CompileError:
    """The error with NVRTC's message, without the error code and options that cuda.core adds."""
    log = (message.partition("compilation log:")[2] or message).replace("\0", "")
    lines = [line.rstrip() for line in log.strip().splitlines()]
    body = "\n".join(line for line in lines if line and not re.match(r"ptxas (info\b|\s)", line))
    advice = includes.missing_header_advice(body)
    text = f"{module.file}: {expression} does not compile for {arch}:\n{body}"
    return CompileError(f"{text}\n{advice}" if advice else text)
