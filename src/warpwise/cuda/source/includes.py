"""Headers that a source includes, digests of a source with its headers, and the CUDA toolkit's header folders."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from warpwise import cache
from warpwise.cuda.source.project import header_folders, nearest_file, template_of

DEVICE_HEADERS = Path(__file__).parents[1] / "include"
"""The folder of this package's device headers, ``<warpwise/...>``; every kernel may include them."""

EMULATOR_HEADERS = Path(__file__).parents[1] / "emulator" / "include"
"""The emulator's versions of the CUDA toolkit's headers."""

NVRTC_HEADERS = DEVICE_HEADERS / "nvrtc"
"""C and C++ standard headers as far as kernels use them. nvcc takes them from the host compiler; NVRTC has none."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)

# Folders of CUDA's headers in NVIDIA's wheels: one for CUDA 13, one for each component for CUDA 12.
_WHEEL_FOLDERS = ("cu13/include", "cuda_runtime/include", "cuda_cccl/include", "cuda_nvcc/include", "curand/include")
_MISSING = "install CUDA's headers: pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl, or set CUDA_HOME"


def included(text: str, folders: Sequence[Path]) -> dict[Path, str]:
    """The headers that ``text`` includes, directly or through other headers, with their texts.

    Only headers found under ``folders`` or beside the including header are returned.
    """
    found: dict[Path, str] = {}
    _collect(text, None, folders, found)
    return found


def _collect(text: str, beside: Path | None, folders: Sequence[Path], found: dict[Path, str]) -> None:
    for quoted, angled in _INCLUDE.findall(text):
        path = locate(f'"{quoted}"' if quoted else f"<{angled}>", beside, folders)
        if path is not None and path not in found:
            found[path] = path.read_text("utf-8-sig", "replace")
            _collect(found[path], path.parent, folders, found)


def locate(name: str, beside: Path | None, folders: Iterable[Path]) -> Path | None:
    """The file of `<name>` or `"name"`: in ``beside``, the folder of the including header, or else in ``folders``.

    As in a compiler, `<stdint.h>` and other standard headers in angle brackets are not searched in ``beside``. The path
    has no ``..``; otherwise headers that include each other by ``../`` would have a longer path at each inclusion.
    """
    plain = name.strip('<>"')
    standard = name.startswith("<") and (NVRTC_HEADERS / plain).is_file()
    path = _first(plain, folders if beside is None or standard else (beside, *folders))
    return path.resolve() if path is not None and ".." in path.parts else path


def of_toolkit(path: Path, name: str) -> bool:
    """True if ``path``, the file of the header ``name``, is one of the CUDA toolkit's, in a folder of a toolkit."""
    parts = Path(name).parts
    if ".." in parts or len(parts) > len(path.parents):
        return False
    folder = path.parents[len(parts) - 1]
    known = (EMULATOR_HEADERS, *toolkit())
    return is_toolkit_folder(folder) and (is_toolkit_header(name) or _first(name, known) is not None)


def is_toolkit_folder(folder: Path) -> bool:
    """True for a folder with the headers of a CUDA toolkit, such as /usr/local/cuda/include."""
    return folder != EMULATOR_HEADERS and (folder / "crt" / "host_defines.h").is_file()


def project_folders(source: Path, text: str, folders: Sequence[Path] = ()) -> list[Path]:
    """The folders of the project of ``source`` with headers that ``text`` includes and that ``folders`` do not have.

    See ``project.header_folders`` for where they are searched; ``project.nearest_file`` finds what is elsewhere.
    """
    found: list[Path] = []
    candidates: list[Path] | None = None
    pending, seen = [(text, source.parent)], set[str]()
    while pending:
        content, beside = pending.pop()
        for quoted, angled in _INCLUDE.findall(content):
            name = quoted or angled
            path = _first(name, (beside, *folders, *found))
            absent = path is None or path.parent == DEVICE_HEADERS  # a project's helper_math.h precedes this package's
            if absent and name not in seen and (quoted or ("." in name and not is_toolkit_header(name))):
                if candidates is None:
                    candidates = list(header_folders(source.resolve().parent))
                own = _first(name, candidates) or (nearest_file(name, source.resolve().parent) if quoted else None)
                if own is not None:
                    found.append(own.parents[len(Path(name).parts) - 1])
                path = own or path
            if path is not None and name not in seen and DEVICE_HEADERS not in path.parents:
                pending.append((path.read_text("utf-8-sig", "replace"), path.parent))
            seen.add(name)
    return found


def _first(name: str, folders: Iterable[Path]) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def digest(text: str, headers: Mapping[Path, str]) -> str:
    """A digest of a source text and of the ``headers`` that ``included`` returns for it."""
    return cache.key(text, *(part for path, content in headers.items() for part in (path.name, content)))


def source_digest(source: Path) -> str:
    """A digest of a kernel's source file and of the files of its project that it includes or imports.

    For CUDA C++ and C these are all headers, quoted or angled, that are found beside the including file, among the
    package's device headers, or in the project's folders. For Python these are the modules of the same top-level
    package, or beside a file outside any package, that the file itself imports. Returns "" if ``source`` is not a file.
    """
    if not source.is_file():
        return ""
    text = source.read_text("utf-8-sig", "replace")
    if source.suffix == ".py":
        return digest(text, {path: path.read_text("utf-8-sig", "replace") for path in _imported(text, source)})
    folders = (source.resolve().parent, DEVICE_HEADERS)
    return digest(text, included(text, (*folders, *project_folders(source, text, folders))))


def _imported(text: str, source: Path) -> list[Path]:
    """The module files of the top-level package of ``source`` that its text imports; packages are left out."""
    root, package = source.resolve().parent, list[str]()
    while (root / "__init__.py").is_file():
        package.insert(0, root.name)
        root = root.parent
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return []
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    parts = [name.split(".") for name in names if name]
    files = [root.joinpath(*part).with_suffix(".py") for part in parts if not package or part[0] == package[0]]
    return sorted({file for file in files if file.is_file()})


@functools.lru_cache(maxsize=1)
def toolkit() -> tuple[Path, ...]:
    """The existing folders of ``cuda_fp16.h``, ``mma.h``, ``cooperative_groups.h`` and ``cuda/barrier``."""
    folders: list[Path] = []
    for folder in _candidates():
        if folder.is_dir() and folder not in folders:
            folders.append(folder)
            if (folder / "cccl").is_dir():
                folders.append(folder / "cccl")
    return tuple(folders)


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for part in _WHEEL_FOLDERS:
            yield Path(root) / part
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "include"
    nvcc = shutil.which("nvcc")
    if nvcc:
        yield Path(nvcc).resolve().parents[1] / "include"
    yield Path("/usr/local/cuda/include")


_TOOLKIT_HEADER = re.compile(
    r"(?!cuda/(?!__|std/).*\.hp*$)(?:cuda|cooperative_groups|crt|cub|nv)/"
    r"|(?:cuda|cuda(?:D3D\d*|EGL|GL|Profiler|VDPAU)?(?:Typedefs)?|cuda_(?:awbarrier\w*|bf16|fp\d+|device_runtime_api"
    r"|\w+_interop|occupancy|pipeline\w*|profiler_api|runtime(?:_api)?|stdint|surface_types|texture_types)"
    r"|cudart_platform|cooperative_groups|curand\w*|device_(?:\w*functions|launch_parameters|types)|math_constants|mma"
    r"|vector_(?:functions|types))\.hp*$"
)


def is_toolkit_header(name: str) -> bool:
    """True if ``name`` is the name of one of the CUDA toolkit's headers for kernels.

    libcu++'s public headers have no extension: `cuda/api.hpp` is a header of another project, as is `cuda_utils.h`.
    """
    return _TOOLKIT_HEADER.match(name) is not None


def generated_header_advice(name: str, source: Path, option: str) -> str:
    """How to get a missing header that the build of the project of ``source`` makes from a template, else "".

    ``option``: how a folder of headers is added.
    """
    template = template_of(name, source.resolve().parent) if source.is_file() else None
    if template is None:
        return ""
    return (
        f"{name} is made from {template} by the project's build: configure the project (cmake -S . -B "
        f"build, or ./configure), and add the folder of the made header by {option}"
    )


def missing_header_advice(log: str) -> str:
    """Advice on what to install if a compiler's ``log`` reports a missing header of the CUDA toolkit, else ""."""
    match = re.search(r'could not open source file "([^"]+)"|cannot open source file "([^"]+)"', log)
    name = (match[1] or match[2]) if match else ""
    if not is_toolkit_header(name):
        return ""
    if name.startswith("curand"):
        return f"{name} is one of cuRAND's headers: pip install nvidia-curand"
    return f"{name} is one of the CUDA toolkit's headers: {_MISSING}"
