"""Host code of a program's files: launches and kernels rewritten in each file and in the headers of its project."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpwise.cuda.errors import CompileError, UnsupportedFeature
from warpwise.cuda.inline.headers import HeaderCopies
from warpwise.cuda.source import includes
from warpwise.cuda.source.lexer import Lines

_OWN = Path(__file__).parent / "include"  # the CUDA libraries that have a CPU version
_SHARED = Path(__file__).parents[1] / "inline/include/cuda"  # CUDA's headers for host code, also of load_inline
_FUNCTORS = re.compile(r'#\s*include\s*[<"](?:thrust|cub)/')
_STANDARD = re.compile(r"cuda/std/(\w+)$")  # libcu++: the C++ library's header has the same name
# Headers whose declarations cuda_runtime.h has.
_RUNTIME = re.compile(
    r"(?:sm_\d\d_\w+|device_(?:functions|types|atomic_functions|launch_parameters)|math_functions|builtin_types"
    r"|(?:crt/)?host_(?:defines|config)|(?:cuda_)?(?:surface|texture)_types|(?:surface|texture_fetch)_functions"
    r"|cuda_device_runtime_api|crt/device_functions)\.hp?p?$"
)
_TEXTURE_REFERENCE = re.compile(r"^[ \t]*(?:static[ \t]+)?(texture[ \t]*<[^;()]*;)", re.MULTILINE)
_MAIN = re.compile(r"\b(?:int|auto|void)\s+(?:\w+\s+)?main\s*\(")
# Libraries of host code that a program on a CPU cannot use.
_LIBRARIES = (
    (re.compile(r"cublas"), "cuBLAS"),
    (re.compile(r"curand(?:\.h|_mtgp32)"), "cuRAND"),
    (re.compile(r"cufft"), "cuFFT"),
    (re.compile(r"cusparse"), "cuSPARSE"),
    (re.compile(r"cusolver"), "cuSOLVER"),
    (re.compile(r"cudnn"), "cuDNN"),
    (re.compile(r"nccl"), "NCCL"),
    (re.compile(r"thrust/"), "Thrust"),
    (re.compile(r"cub/"), "CUB"),
    (re.compile(r"cutlass/|cute/"), "CUTLASS"),
    (re.compile(r"nvrtc\.h|cudaProfiler\.h|nvml\.h|npp|nvjpeg|nvgraph"), "another CUDA library"),
    (re.compile(r"GL/|GLFW|helper_gl|cuda_gl_interop|vulkan"), "OpenGL"),
    (re.compile(r"^mpi\.h"), "MPI"),
    (re.compile(r"opencv"), "OpenCV"),
)


@dataclass(frozen=True)
class HostFile:
    """The rewritten text of one file, and the copies of its headers by file name."""

    path: Path
    text: str
    folders: tuple[Path, ...]
    headers: dict[str, str]
    openmp: bool


def host_file(path: Path, include: Sequence[Path], scratch: Path) -> HostFile:
    """The host code of ``path``; the headers of its project become copies that will be in ``scratch``.

    Raises ``UnsupportedFeature``, which names the line, if a library that the program needs has no CPU version.
    """
    text = path.read_text("utf-8-sig", "replace")
    folders = [path.parent, *include]
    folders += includes.project_folders(path, text, (*folders, includes.DEVICE_HEADERS))
    functors = any(_FUNCTORS.search(each) for each in (text, *includes.included(text, folders).values()))
    _refuse_texture_references(text, path)
    copies = HeaderCopies(folders, scratch, functors, _not_of_project)
    body = f'#line 1 "{path}"\n{copies.host_code(text, str(path))}\n'
    openmp = any("omp.h" in each or re.search(r"#\s*pragma\s+omp", each) for each in (body, *copies.texts.values()))
    return HostFile(path, body, tuple(folders), copies.texts, openmp)


def _not_of_project(name: str, text: str, position: int, file: str) -> str | None:
    """The header that replaces the header ``name`` of a library; None if it is included as it is."""
    if _RUNTIME.match(name):
        return "<cuda_runtime.h>"
    if (standard := _STANDARD.match(name)) and not (_SHARED / name).is_file():
        return f"<{standard[1]}>"
    if not (_OWN / name).is_file():
        _refuse_library(name, text, position, file)
    return None


def _refuse_library(name: str, text: str, position: int, file: str) -> None:
    for pattern, library in _LIBRARIES:
        if pattern.search(name):
            where, line = Lines(text, file).at(position)
            raise UnsupportedFeature(
                f"{where}:{line}: #include <{name}>: {library} has no CPU version here; run the program on a GPU, or "
                "its kernels by `warpwise check`"
            )


def _refuse_texture_references(text: str, file: Path) -> None:
    found = _TEXTURE_REFERENCE.search(text)
    if found:
        line = text.count("\n", 0, found.start(1)) + 1
        raise UnsupportedFeature(
            f"{file}:{line}: texture references, which CUDA 12 removed: pass a cudaTextureObject_t to the kernel"
        )


# Headers of the C++ library that CUDA's and CCCL's headers include: programs use them without an #include.
_IMPLICIT = {"chrono": re.compile(r"\bchrono\s*::"), "iostream": re.compile(r"\b(?:cout|cerr)\s*<<")}


def implicit_headers(texts: Iterable[str]) -> list[str]:
    """The headers of the C++ library that a file and its headers use but may not include."""
    found = list(texts)
    return [name for name, used in _IMPLICIT.items() if any(used.search(each) for each in found)]


def has_main(file: Path) -> bool:
    """Whether ``file`` defines ``main``."""
    return _MAIN.search(file.read_text("utf-8-sig", "replace")) is not None


def require_main(files: Sequence[Path]) -> None:
    """Raise ``CompileError`` if no file defines ``main``."""
    if any(map(has_main, files)):
        return
    names = ", ".join(map(str, files))
    raise CompileError(f"{names}: no function main; `warpwise check` runs one kernel of a file")
