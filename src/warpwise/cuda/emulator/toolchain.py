"""The C++ compiler for emulated kernels: its command, its flags and its precompiled headers."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from pathlib import Path

from warpwise import cache, native
from warpwise.cuda.errors import CompileError, MissingTool
from warpwise.cuda.source.device_code import code_digest

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
SHARED_INCLUDE = HERE.parent / "include"  # device code of this package for every kernel: #include <warpwise/...>

_SANITIZERS = "bounds,alignment,integer-divide-by-zero,shift-exponent,return"


def command() -> tuple[str, ...]:
    """Return the command of the compiler. Raises ``MissingTool`` with the packages to install."""
    try:
        return native.compiler()
    except native.NoCompiler as error:
        raise MissingTool(f"running a kernel on the CPU needs a C++17 compiler: {error}") from None


# -ffp-contract=fast with an FMA unit contracts a * b + c as nvcc does; no other arithmetic is relaxed.
_COMMON = (
    "-std=c++17", "-g1", "-fPIC", "-w", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=fast", "-fno-math-errno",
    "-ftrivial-auto-var-init=pattern", "-fno-omit-frame-pointer", "-fvisibility=hidden", "-fno-threadsafe-statics",
    "-fno-delete-null-pointer-checks",  # an access of a null pointer stays, and is a finding
    "-gdwarf-4",  # addr2line takes the first file of a DWARF 5 line table for standard input
    "-fstack-clash-protection",  # a large local array meets the guard page, not another thread's stack
)  # fmt: skip
_INSTRUMENTED = ("-O1", "-fsanitize=thread", f"-fsanitize={_SANITIZERS}", "-DWW_CHECKED")


# Exceptions of arithmetic are trapped: no instruction may be executed early, and none has the encoding of AVX.
_TRAPPING = ("-ftrapping-math", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-DWW_NUMBERS")
_ONE_OPERAND = (
    "acos acosh asin atanh cbrt cos cosh erfc exp exp10 exp2 expm1 lgamma log log10 log1p log2 sin sinh sqrt tan tgamma"
)
_SEVERAL_OPERANDS = "fmod hypot pow remainder fma ldexp"
CHECKED_FUNCTIONS = tuple(name + end for name in f"{_ONE_OPERAND} {_SEVERAL_OPERANDS}".split() for end in ("", "f"))
"""Functions of the C library whose results runtime/numbers.cpp checks."""


@functools.lru_cache(maxsize=8)
def flags(compiler: tuple[str, ...], checked: bool, numbers: bool = False) -> tuple[str, ...]:
    """Return the flags for kernels with (``checked``) or without instrumented accesses. ``numbers``: with traps at
    NaNs, infinities and denormal numbers.
    """
    if numbers:
        kept = [flag for flag in flags(compiler, checked) if flag != "-fno-trapping-math"]
        return (*(flag for flag in kept if flag not in native.vector_flags()), *_TRAPPING)
    common = (*_COMMON, *native.vector_flags())
    if native.is_clang(compiler):
        # By default clang does not instrument a read that is followed by a write to the same address.
        reads = ("-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-tsan-distinguish-volatile=1")
        # Ziglang defines NDEBUG where the compiler optimises, and ends the process at undefined behaviour.
        common = (*common, "-UNDEBUG")
        return (*common, *_INSTRUMENTED, "-fsanitize-recover=all", *reads) if checked else (*common, "-O2")
    # Line tables name no variables: tracking them takes a third of the time of a large kernel.
    common = (*common, "-fno-gnu-unique", "-fno-trapping-math", "-fno-var-tracking", "-gno-variable-location-views")
    if not checked:  # SLP vectorisation would prevent the fusion of an addition and a subtraction with their products
        return (*common, "-O2", "-fno-tree-slp-vectorize")
    # At -O1 contraction is off by default. With -ftree-fre a variable that is uninitialised on some paths would get the
    # value of the other paths.
    return (
        *common, *_INSTRUMENTED, "-fexpensive-optimizations", "-fno-tree-fre", "--param", "tsan-distinguish-volatile=1"
    )  # fmt: skip


@functools.lru_cache(maxsize=1)
def linker() -> tuple[str, ...]:
    """Return the flag for g++ that selects gold if it is installed: it links a kernel in half of the time of ld.bfd."""
    return ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()


@functools.lru_cache(maxsize=1)
def headers_digest() -> str:
    """Return a digest of the inputs of a kernel's library other than its source, the compiler and the runtime."""
    headers = (
        *INCLUDE.rglob("*"),
        *SHARED_INCLUDE.rglob("*"),
        HERE / "runtime" / "abi.h",
        HERE / "runtime" / "abi_extra.h",
    )
    files = sorted(path for path in headers if path.is_file())
    own = ("compiler.py", "toolchain.py", "rewrite.py", "rewrite_shared.py", "uninitialised.py")
    sources = [HERE / name for name in own]
    return cache.key(code_digest(), *(path.read_bytes() for path in [*files, *sources]))


@functools.lru_cache(maxsize=8)
def precompiled(compiler: tuple[str, ...], flags: tuple[str, ...]) -> Path:
    """Return a folder with warpwise_device.h precompiled for these flags, built on a miss.

    The paths of the headers are part of the key and of the file: findings skip the lines of those headers.
    """
    name = cache.key(compiler, native.version(compiler), flags, INCLUDE, headers_digest())
    folder = cache.cache_dir() / "emulator" / f"pch-{name}"
    header, precompiled = folder / "warpwise_device.h", folder / "warpwise_device.h.gch"
    with cache.build_lock(precompiled) as must_build:
        if must_build:
            cache.atomic_write(header, f'#include "{INCLUDE / "warpwise_device.h"}"\n')
            handle, made = tempfile.mkstemp(dir=folder, suffix=".gch")
            os.close(handle)
            command = [*compiler, *flags, "-x", "c++-header", "-I", str(INCLUDE), str(header), "-o", made]
            result = native.run(command, env=environment())
            if result.returncode:
                Path(made).unlink(missing_ok=True)
                raise CompileError(f"{compiler[0]} cannot compile the device headers:\n{result.stderr}")
            os.replace(made, precompiled)
    return folder


def environment() -> dict[str, str]:
    """Return an environment in which compilers print English messages, which are parsed."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}
