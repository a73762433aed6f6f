"""Compilation of CUDA C++ to machine code by NVRTC, through NVIDIA's cuda.core. Needs no GPU and no driver."""

from __future__ import annotations

import functools
import importlib.metadata
import io
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpwise import cache
from warpwise.cuda.errors import CompileError
from warpwise.cuda.source import includes
from warpwise.cuda.source.device_code import code_digest, device_code
from warpwise.cuda.source.signature import demangle
from warpwise.device.profiles import parse_target

if TYPE_CHECKING:
    from warpwise.cuda.launch.module import Module

# The symbol of its instantiation with a kernel's type contains that type; demangled, it gives the parameter types.
_SIGNATURE = "\ntemplate <class F> __global__ void ww_signature() {}\n"
_FORMAT = 2  # of cache entries

# C and C++ standard headers that kernels use. nvcc takes them from the host compiler; NVRTC has none.
_STANDARD_HEADERS = Path(__file__).parents[1] / "include" / "nvrtc"

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
_NEEDED = "pip install 'warpwise[cuda]' (cuda-core, cuda-bindings, nvidia-cuda-nvrtc)"


@dataclass(frozen=True)
class Compiled:
    """One kernel's machine code and resource usage.

    ``registers``: for each thread. ``shared``: static shared memory of a block; ``stack`` and the spills: of a thread;
    all in bytes. ``cooperative``: the kernel synchronises the whole grid. ``constants`` maps C++ names of variables to
    their symbols in ``cubin``.
    """

    expression: str
    target: str
    symbol: str
    function_type: str
    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int
    cooperative: bool
    constants: dict[str, str]
    log: str
    cubin: bytes = field(repr=False)


def architecture(target: str) -> str:
    """The NVRTC architecture of a target; from sm_90 on the architecture-specific one (sm_90a)."""
    major, minor = parse_target(target)
    name = f"sm_{major}{minor}"
    return f"{name}a" if (major, minor) >= (9, 0) else name


def compile(module: Module, expression: str, target: str, constants: tuple[str, ...] = ()) -> Compiled:
    """Compile the kernel that ``expression`` names, or load it from the cache.

    ``constants`` are C++ names of variables whose symbols the result contains. Raises ``CompileError`` with NVRTC's
    message, and ``ImportError`` that names the packages to install if NVRTC is missing.
    """
    arch = architecture(target)
    headers = includes.included(module.text, module.include)
    key = cache.key(
        _FORMAT,
        sorted(_OPTIONS.items()),
        code_digest(),
        _standard_headers_digest(),
        includes.digest(module.text, headers),
        module.file,
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
    if kept is None:
        made = _compile(module, device_code(module.text), expression, arch, constants)
        facts = {name: value for name, value in asdict(made).items() if name != "cubin"}
        cache.save(path, json.dumps(facts).encode() + b"\n" + made.cubin)
        return made
    facts_line, _, cubin = kept.partition(b"\n")
    return Compiled(**json.loads(facts_line), cubin=cubin)


@functools.lru_cache(maxsize=1)
def _standard_headers_digest() -> str:
    """A digest of the standard headers that are added to every source."""
    return cache.key(*(part for file in sorted(_STANDARD_HEADERS.iterdir()) for part in (file.name, file.read_bytes())))


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
        import cuda.bindings
        import cuda.core
    except ImportError as error:
        raise ImportError(f"compiling for a GPU needs cuda.core and NVRTC ({error}): {_NEEDED}") from error
    return cuda.core


def _compile(module: Module, text: str, expression: str, arch: str, constants: tuple[str, ...]) -> Compiled:
    core = _cuda_core()
    signature = f"ww_signature<decltype(&{expression})>"
    references = {name: f"&{name}" for name in constants}
    options = core.ProgramOptions(
        name=module.file,
        arch=arch,
        **_OPTIONS,
        define_macro=[(name, _macro(value)) for name, value in module.define.items()] or None,
        include_path=[str(folder) for folder in (*module.include, *includes.toolkit(), _STANDARD_HEADERS)],
        pre_include=str(_STANDARD_HEADERS / "implicit.h"),
    )
    log = io.StringIO()
    try:
        program = core.Program(text + _SIGNATURE, "c++", options)
        made = program.compile("cubin", name_expressions=[expression, signature, *references.values()], logs=log)
    except Exception as error:
        if type(error).__name__ != "NVRTCError":  # cuda.core does not export this class
            raise
        raise _compile_error(module, expression, arch, str(error)) from None
    names = {
        key: symbol.decode() if isinstance(symbol, bytes) else symbol for key, symbol in made.symbol_mapping.items()
    }
    symbol, cubin = names[expression], bytes(made.code)
    return Compiled(
        expression,
        arch,
        symbol,
        demangle(names[signature]),
        **_resources(log.getvalue(), symbol),
        cooperative=_synchronises_grid(cubin, symbol),
        constants={name: names[ref] for name, ref in references.items()},
        log=log.getvalue().strip(" \0\n"),
        cubin=cubin,
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


def _resources(log: str, symbol: str) -> dict[str, int]:
    """Registers, shared memory, stack and spills of ``symbol`` from the output of ptxas -v."""
    part = re.search(
        rf"Compiling entry function '{re.escape(symbol)}'(.*?)(?=Compiling entry function|\Z)", log, re.DOTALL
    )
    report = part[1] if part else ""

    def number(pattern: str) -> int:
        match = re.search(pattern, report)
        return int(match[1]) if match else 0

    return {
        "registers": number(r"Used (\d+) registers"),
        "shared": number(r"(\d+) bytes smem"),
        "stack": number(r"(\d+) bytes stack frame"),
        "spill_stores": number(r"(\d+) bytes spill stores"),
        "spill_loads": number(r"(\d+) bytes spill loads"),
    }


def _synchronises_grid(cubin: bytes, symbol: str) -> bool:
    """True if the kernel reads the grid barrier's address, which a cooperative launch passes in %envreg1 and %envreg2.

    The cubin contains the PTX because it is compiled with line information.
    """
    start = cubin.find(b".entry " + symbol.encode() + b"(")
    end = cubin.find(b".entry ", start + 1)
    return start >= 0 and b"%envreg" in cubin[start : end if end >= 0 else len(cubin)]
