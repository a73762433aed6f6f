"""Compile the host code of an extension for the CPU, with g++.

PyTorch's ``torch/extension.h`` takes g++ 20 s. The light headers under ``include/light`` are a subset that takes 1.7 s,
and a third of that once it is precompiled. If they lack something that the extension uses, its compilation fails, and
it is compiled again with PyTorch's headers.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import torch

from warpwise import native
from warpwise.cache import atomic_write, build_lock, cache_dir, key
from warpwise.cuda.errors import CompileError
from warpwise.cuda.inline.device_names import functions_of, on_cpu
from warpwise.cuda.inline.headers import HeaderCopies
from warpwise.cuda.source import includes

HERE = Path(__file__).parent
_INCLUDE = HERE / "include"
_TORCH = Path(torch.__file__).parent
_EMULATOR = HERE.parent / "emulator"
_LIBRARIES = ("c10", "torch_cpu", "torch", "torch_python")
# Names that only PyTorch's and pybind11's own headers declare: the light headers are not tried.
_REAL_ONLY = re.compile(
    r"\b(?:torch|at)\s*::\s*(?:nn|autograd|jit|data|optim|serialize|class_|CustomClassHolder|native|parallel_for)\b"
    r"|\bpy(?:bind11)?\s*::\s*(?:class_|enum_|object|dict|list|tuple|str|function|handle|array|array_t|buffer|kwargs"
    r"|args|bytes|capsule)\b"
)
# Compiler errors that the light headers may cause, because they concern names and types of PyTorch and pybind11.
_MISSING_FROM_LIGHT = re.compile(
    r"WARPWISE_NOT_LIGHT"
    r"|fatal error: (?:torch|ATen|c10|caffe2|pybind11)/"
    r"|error: (?=[^\n]*\b(?:torch|at|c10|pybind11|py)\b)[^\n]*(?:is not a member of|has not been declared"
    r"|does not name a t|has no member|incomplete type|no match|invalid initialization|could not convert|did you mean)"
)


@dataclass
class Sources:
    """The sources of an extension and its compiler flags: the arguments of ``load_inline``."""

    name: str
    cpp: str
    cuda: str
    bindings: str
    implicit_headers: bool = True
    cflags: Sequence[str] = ()
    cuda_cflags: Sequence[str] = ()
    ldflags: Sequence[str] = ()
    include: Sequence[str] = ()
    key: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.key = key(
            self.name,
            self.cpp,
            self.cuda,
            self.bindings,
            self.implicit_headers,
            *self.cflags,
            "|",
            *self.cuda_cflags,
            "|",
            *self.ldflags,
            "|",
            *self.include,
            *states(self.include),
            toolchain_key(),
        )


def states(folders: Sequence[str]) -> list[str]:
    """Name, size and modification time of each header in the include folders ``folders``."""
    found = []
    for folder in folders:
        for root, _, files in os.walk(folder):
            for file in files:
                if file.endswith((".h", ".hpp", ".cuh", ".hh", ".hxx", ".inl", ".cu", ".inc", ".ipp")):
                    state = os.stat(os.path.join(root, file))
                    found.append(f"{root}/{file}:{state.st_size}:{state.st_mtime_ns}")
    return sorted(found)


@lru_cache(maxsize=1)
def compiler() -> str:
    """The path of the C++ compiler, ``$CXX`` or g++. Raises ``CompileError`` if it is not found."""
    wanted = os.environ.get("CXX", "g++")
    found = shutil.which(wanted)
    if found is None:
        raise CompileError(f"load_inline needs a C++ compiler, and {wanted!r} is not found: install g++ or set CXX")
    return found


@lru_cache(maxsize=1)
def toolchain_key() -> str:
    """The part of the cache key that all extensions share: compiler, Python, PyTorch, and the files of this folder."""
    state = os.stat(os.path.realpath(compiler()))
    own = sorted(
        path for path in (*_INCLUDE.rglob("*"), *(HERE / "support").iterdir(), *HERE.glob("*.py")) if path.is_file()
    )
    return key(
        compiler(),
        state.st_size,
        state.st_mtime_ns,
        sys.version,
        torch.__version__,
        *(path.read_bytes() for path in own),
        *(
            (_EMULATOR / "include/ww" / name).read_bytes()
            for name in ("vector_types.h", "texture_object.h", "tensor_map_object.h")
        ),
        (native.INCLUDE / "writable.h").read_bytes(),
    )


@lru_cache(maxsize=1)
def _common_flags() -> tuple[str, ...]:
    """The flags that PyTorch passes for an extension, with the C++ standard of the installed version."""
    text = (_TORCH / "utils/cpp_extension.py").read_text()
    standard = re.search(r"-std=(c\+\+\d\d)", text)
    return (
        f"-std={standard[1] if standard else 'c++17'}",
        "-fPIC",
        "-w",
        "-fmax-errors=20",
        "-fno-gnu-unique",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
    )


def _include_flags(light: bool) -> list[str]:
    first = [_INCLUDE / "light"] if light else []
    own = [f"-I{folder}" for folder in (*first, _INCLUDE / "cuda", _INCLUDE / "host")]
    system = (_TORCH / "include", _TORCH / "include/torch/csrc/api/include", sysconfig.get_path("include"))
    return [*own, *(part for folder in system for part in ("-isystem", str(folder))), "-idirafter", str(_EMULATOR)]


def run(command: Sequence[str], verbose: bool = False) -> None:
    """Run a compiler. Raises ``CompileError`` with its messages if it fails."""
    if verbose:
        print(shlex.join(command), flush=True)
    done = native.run(command, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise CompileError(done.stderr.strip() or f"{command[0]} exited with status {done.returncode}")


def _workers() -> ThreadPoolExecutor:
    """A pool that runs one compiler per core, or ``$MAX_JOBS``."""
    limit = os.environ.get("MAX_JOBS", "")
    return ThreadPoolExecutor(int(limit) if limit.isdigit() and int(limit) else os.cpu_count() or 1)


# ---- the support library


def support_library_path() -> Path:
    return cache_dir() / "inline" / f"libwarpwise_inline_{toolchain_key()}.so"


def support_library(verbose: bool = False) -> Path:
    """The path of the support library, which one process builds if the cache has none; others wait for it.

    Its files are one translation unit: separately, each would take most of its time for PyTorch's headers.
    """
    library = support_library_path()
    library.parent.mkdir(parents=True, exist_ok=True)
    with build_lock(library) as must_build:
        if must_build:
            declared = (_TORCH / "include/torch/csrc/autograd/python_variable.h").read_text()
            reference = int(re.search(r"THPVariable_Wrap\(\s*const at::TensorBase&", declared) is not None)
            flags = [*_common_flags(), "-O1", f"-DWW_WRAP_BY_REFERENCE={reference}", *_include_flags(light=True)]
            flags.append(f"-I{native.INCLUDE}")
            with tempfile.TemporaryDirectory(dir=library.parent) as folder:
                unit, made = Path(folder) / "support.cpp", Path(folder) / "support.o"
                unit.write_text("".join(f'#include "{part}"\n' for part in sorted((HERE / "support").glob("*.cpp"))))
                run([compiler(), *flags, "-c", str(unit), "-o", str(made)], verbose)
                _link(library, [made], [f"-Wl,-soname,{library.name}"], verbose)
    return library


def _precompiled(verbose: bool) -> list[str]:
    """The flag of the folder with the precompiled light torch/types.h, which is built on a miss; g++ reads it if the
    flags are the same. Empty for clang, which has another format.

    The path of this installation is part of the key, because g++ reads its header if it cannot use the precompiled one.
    """
    if native.is_clang((compiler(),)):
        return []
    folder = cache_dir() / "inline" / f"pch-{key(toolchain_key(), _INCLUDE)}"
    header = folder / "torch" / "types.h"
    with build_lock(header.with_name("types.h.gch")) as must_build:
        if must_build:
            atomic_write(header, f'#include "{_INCLUDE / "light/torch/types.h"}"\n')
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                made = Path(scratch) / "types.h.gch"
                flags = [*_common_flags(), *_include_flags(light=True)]
                run([compiler(), *flags, "-x", "c++-header", str(header), "-o", str(made)], verbose)
                made.replace(header.with_name(made.name))
    return [f"-I{folder}"]


def _link(output: Path, objects: Sequence[Path], more: Sequence[str], verbose: bool) -> None:
    """Link to a temporary file and rename it, so that other processes never load a partial library."""
    output.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=output.parent, suffix=".so")
    os.close(handle)
    try:
        libraries = [f"-L{_TORCH / 'lib'}", *(f"-l{library}" for library in _LIBRARIES)]
        run([compiler(), "-shared", "-o", temporary, *map(str, objects), *libraries, *more], verbose)
        os.chmod(temporary, 0o755)
        os.replace(temporary, output)
    finally:
        Path(temporary).unlink(missing_ok=True)


# ---- extensions


def extension(sources: Sources, output: Path, verbose: bool = False) -> None:
    """Compile ``sources`` to the shared library ``output``.

    Raises ``CompileError`` with the line numbers of the sources.
    """
    light = _REAL_ONLY.search(sources.cpp + sources.cuda) is None
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent) as scratch, _workers() as workers:
        folder = Path(scratch)
        support = workers.submit(support_library, verbose)
        try:
            objects = _compile(sources, folder, workers, light, verbose)
        except CompileError as error:
            if not (light and _MISSING_FROM_LIGHT.search(str(error))):
                raise
            if verbose:
                print(error)
            light = False
            objects = _compile(sources, folder, workers, light, verbose)
        if not light:
            warnings.warn(
                f"load_inline: {sources.name!r} needs all of PyTorch's headers, which take g++ at least 20 s; "
                "the build is cached",
                stacklevel=4,
            )
        library = support.result()
        rpath = f"-Wl,-rpath,{library.parent}:{_TORCH / 'lib'}"
        _link(output, objects, [str(library), rpath, *sources.ldflags], verbose)


def _compile(sources: Sources, folder: Path, workers: ThreadPoolExecutor, light: bool, verbose: bool) -> list[Path]:
    flags = [*_common_flags(), f"-DTORCH_EXTENSION_NAME={sources.name}", f'-DWW_EXTENSION="{sources.key}"']
    flags += [*(_precompiled(verbose) if light else ()), *(f"-I{path}" for path in sources.include)]
    flags += _include_flags(light)
    parts = [("main", _host_source(sources, light), sources.cflags)]
    if sources.cuda:
        text = _cuda_host_source(sources, light, folder / "headers")
        parts.append(("cuda", text, _host_flags(sources.cuda_cflags)))
    started = []
    for stem, text, more in parts:
        path = folder / f"{stem}.cpp"
        path.write_text(text)
        started.append(
            workers.submit(run, [compiler(), *flags, *more, "-c", str(path), "-o", str(folder / f"{stem}.o")], verbose)
        )
    failures = []
    for part in started:
        try:
            part.result()
        except CompileError as error:
            failures.append(str(error))
    if failures:
        raise CompileError(f"{sources.name}: " + "\n".join(failures).replace(f"{folder}/", ""))
    return [folder / f"{stem}.o" for stem, _, _ in parts]


def _host_flags(cuda_cflags: Sequence[str]) -> list[str]:
    """The flags of nvcc that also apply to g++, and those that ``-Xcompiler`` forwards."""
    kept: list[str] = []
    flags = iter(cuda_cflags)
    for flag in flags:
        name, _, value = flag.partition("=")
        if name in ("-Xcompiler", "--compiler-options"):
            kept += (value or next(flags, "")).strip("'\"").split(",")
        elif flag.startswith(("-D", "-U", "-I")) or re.fullmatch(r"-O[0-3]|-g", flag):
            kept.append(flag)
    return kept


def _host_source(sources: Sources, light: bool) -> str:
    text = sources.cpp if not sources.cuda else on_cpu(sources.cpp)
    head = ["#include <torch/types.h>", "#include <torch/extension.h>"] if sources.implicit_headers else []
    head += _operator_includes(text, light)
    bindings = ["#include <torch/extension.h>", sources.bindings] if sources.bindings else []
    return "\n".join(
        [*head, f'#line 1 "{sources.name}.cpp"', text, f'#line 1 "{sources.name} (bindings)"', *bindings, ""]
    )


def _cuda_host_source(sources: Sources, light: bool, scratch: Path) -> str:
    """The host code of the CUDA source. The copies of the headers in its include folders are written to ``scratch``."""
    file = f"{sources.name}.cu"
    libraries = (_TORCH, Path(sysconfig.get_path("include")), *includes.toolkit())
    folders = [Path(each) for each in sources.include if not any(map(Path(each).is_relative_to, libraries))]
    copies = HeaderCopies(folders, scratch, translate=on_cpu)
    text = on_cpu(copies.host_code(sources.cuda, file))
    copies.write()
    head = ["#include <torch/types.h>"] if sources.implicit_headers else []
    head += [
        "#include <cuda.h>",
        "#include <cuda_runtime.h>",
        *_operator_includes("\n".join((text, *copies.texts.values())), light),
        "#include <warpwise_host/launch.h>",
    ]
    return "\n".join([*head, f'#line 1 "{file}"', text, ""])


def _operator_includes(text: str, light: bool) -> list[str]:
    """``#include`` lines for PyTorch's free functions that ``text`` uses; each has a header of its own."""
    if not light:
        return []
    names = sorted(functions_of(text))
    found = [f"#include <ATen/ops/{name}.h>" for name in names if _operator_header(name)]
    # Lists of tensors double the compile time: List.h instantiates the containers of every type of TorchScript.
    if re.search(r"\bITensorListRef\b", "".join((text, *map(_operator_header, names)))):
        found.append("#include <ATen/core/IListRef.h>")
    if "TORCH_LIBRARY" in text:
        found.append("#include <torch/library.h>")
    if re.search(r"\bindexing\b", text):
        found.append("#include <ATen/TensorIndexing.h>")
    return found


def _operator_header(name: str) -> str:
    """The header of the function ``at::name``, or nothing if there is none."""
    path = _TORCH / f"include/ATen/ops/{name}.h"
    return path.read_text() if path.is_file() else ""
