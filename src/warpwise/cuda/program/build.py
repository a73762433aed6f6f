"""Compile a program's host code to a shared library, with g++."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from warpwise.cache import build_lock, cache_dir, key
from warpwise.cuda.emulator import runtime
from warpwise.cuda.errors import CompileError, UnsupportedFeature
from warpwise.cuda.inline import build as inline
from warpwise.cuda.program import sources
from warpwise.cuda.source.includes import generated_header_advice, is_toolkit_header

HERE = Path(__file__).parent
_INLINE = HERE.parent / "inline"
_EMULATOR = HERE.parent / "emulator"
_NATIVE = HERE.parents[1] / "native/include"
INCLUDE = (HERE / "include", _INLINE / "include/cuda", _INLINE / "include/host")
_ZEROED = ("-Wl,--wrap=malloc", "-Wl,--wrap=posix_memalign", str(HERE / "include/warpwise_host_memory.cpp"))
_COMMON = ("-std=c++17", "-fPIC", "-w", "-g1", "-gdwarf-4", "-fno-var-tracking", "-pthread", "-fno-omit-frame-pointer")
# g++'s error for a name of a CUDA library that include/ does not declare, with the library of a C++ name.
_MISSING_CALL = re.compile(
    r"^(\S[^\n]*?:\d+):\d+: error: ['‘](\w+)['’] "
    r"(?:was not declared|does not name|has not been declared|is not a member of ['‘](thrust|cub))"
    r"(?:[^\n]*did you mean ['‘](\w+)['’])?",
    re.MULTILINE,
)
_MISSING_HEADER = re.compile(r"^(\S[^\n]*?:\d+):\d+: fatal error: (\S+): No such file", re.MULTILINE)
_CALL = re.compile(r"cublas|curand|cufft|cusparse|cuda[A-Z]\w+$|cu[A-Z]")
_SUPPORT = (
    HERE / "support/cublas.cpp",
    HERE / "support/cufft.cpp",
    HERE / "support/cusparse.cpp",
    HERE / "support/curand.cpp",
    HERE / "support/memory.cpp",
    HERE / "support/tensor_maps.cpp",
    _INLINE / "support/cuda_api.cpp",
    _INLINE / "support/errors.cpp",
    _INLINE / "support/graphs.cpp",
    _INLINE / "support/launch.cpp",
    _INLINE / "support/symbols.cpp",
    _INLINE / "support/textures.cpp",
)


@dataclass(frozen=True)
class Options:
    """Include folders, macros (``NAME`` or ``NAME=VALUE``) and further flags of g++."""

    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unit:
    """One file of a program. ``key`` identifies it in launches; ``folders`` are searched for its headers."""

    path: Path
    key: str
    folders: tuple[Path, ...]


def _own(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (HERE / folder).rglob("*") if path.is_file())


def support() -> Path:
    """The library that implements the CUDA runtime API for programs, compiled on a cache miss."""
    texts = [path.read_bytes() for path in [*_own("support", "include"), _NATIVE / "tensor_map.h"]]
    output = cache_dir() / "program" / f"libwarpwise_program_{key(inline.toolchain_key(), *texts)}.so"
    output.parent.mkdir(parents=True, exist_ok=True)
    with build_lock(output) as must_build:
        if must_build:
            with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
                made = Path(scratch) / "support.so"
                folders = [f"-I{folder}" for folder in (*INCLUDE, HERE / "support", _INLINE / "support", _NATIVE)]
                flags = (*_COMMON, "-O2", "-shared", "-idirafter", str(_EMULATOR))
                inline.run([inline.compiler(), *flags, *folders, *_units(Path(scratch)), "-o", str(made)])
                made.replace(output)
    return output


def _units(scratch: Path) -> list[str]:
    """The files of the support library, one translation unit for each folder, which reads the headers only once."""
    units: dict[Path, str] = {}
    for path in _SUPPORT:
        units[path.parent] = units.get(path.parent, "") + f'#include "{path}"\n'
    made = [scratch / f"{number}.cpp" for number in range(len(units))]
    for path, text in zip(made, units.values(), strict=True):
        path.write_text(text)
    return list(map(str, made))


def program(files: Sequence[Path], options: Options) -> tuple[Path, list[Unit]]:
    """Compile ``files``. Returns the library and the files that may launch kernels.

    Raises ``CompileError`` with g++'s messages, and ``UnsupportedFeature`` for a library without a CPU version.
    """
    sources.require_main(files)
    folder = cache_dir() / "program"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        scratch = Path(made)
        found = [sources.host_file(path, options.include, scratch / str(i)) for i, path in enumerate(files)]
        names = [
            key(str(each.path), each.text.replace(made, ""), *each.headers.values(), options, inline.toolchain_key())
            for each in found
        ]
        units = [Unit(each.path, name, each.folders) for each, name in zip(found, names, strict=True)]
        own = [path.read_bytes() for path in _own("include")] + [" ".join(_ZEROED).encode()]
        output = folder / f"{files[0].stem}-{key(*names, *own, str(runtime.library()))}.so"
        if output.exists():
            return output, units
        with ThreadPoolExecutor(2) as pool:
            started = [
                pool.submit(_compile, scratch / str(i), each, name, options)
                for i, (each, name) in enumerate(zip(found, names, strict=True))
            ]
        objects = [str(each.result()) for each in started]
        openmp = ["-fopenmp"] if any(each.openmp for each in found) else []
        library = scratch / "program.so"
        link = [
            inline.compiler(),
            "-shared",
            "-Wl,-Bsymbolic",
            *_ZEROED,
            *_COMMON,
            *openmp,
            *objects,
            "-o",
            str(library),
        ]
        inline.run([*link, *options.flags, "-lm"])
        library.replace(output)
    return output, units


def _compile(folder: Path, file: sources.HostFile, name: str, options: Options) -> Path:
    folder.mkdir()
    for header, text in file.headers.items():
        (folder / header).write_text(text)
    unit, output = folder / "unit.cpp", folder / "unit.o"
    unit.write_text(file.text)
    flags = [
        *_COMMON,
        "-O2",
        "-fpermissive",
        "-fmax-errors=20",
        f'-DWW_EXTENSION="{name}"',
        "-D__CUDACC__",
        "-D__NVCC__",
    ]
    implicit = sources.implicit_headers([file.text, *file.headers.values()])
    flags += [word for name in implicit for word in ("-include", name)]
    flags += ["-include", "warpwise_program.h", *(["-fopenmp"] if file.openmp else []), *options.flags]
    flags += [f"-D{define}" for define in options.define]
    flags += [f"-I{path}" for path in INCLUDE] + [f"-I{path}" for path in file.folders]
    try:
        inline.run([inline.compiler(), *flags, "-idirafter", str(_EMULATOR), "-c", str(unit), "-o", str(output)])
    except CompileError as error:
        text = re.sub(rf"{re.escape(str(folder))}/(?:\d+_)?", "", str(error))
        _refuse_missing(text)
        missing = [name for _, name in _MISSING_HEADER.findall(text)]
        advice = generated_header_advice(missing[0], file.path, "-I DIR") if missing else ""
        advice = f"\n{advice}" if advice else ""
        raise CompileError(f"{file.path}: the host code does not compile\n{text.rstrip()}{advice}") from None
    return output


def _refuse_missing(messages: str) -> None:
    """Raise ``UnsupportedFeature`` if g++ misses a header or a call of a CUDA library that has no CPU version."""
    for where, name in _MISSING_HEADER.findall(messages):
        if is_toolkit_header(name):
            raise UnsupportedFeature(
                f"{where}: #include <{name}>: this header of the CUDA toolkit has no CPU version; run the program on a "
                "GPU"
            ) from None
    for where, name, library, near in _MISSING_CALL.findall(messages):
        if library or _CALL.match(name):
            full = f"{library}::{name}" if library else name
            advice = f"did you mean {near}? Otherwise run" if near else "run"
            raise UnsupportedFeature(
                f"{where}: {full} has no CPU version (docs/programs.md lists the calls that have one): "
                f"{advice} the program on a GPU"
            ) from None
