"""PyTorch's ``load_inline``, with a cache, and without a GPU too.

With a GPU this calls ``torch.utils.cpp_extension.load_inline`` for the current device's architecture, once for the same
sources. Without a GPU the same sources are built by g++: host code runs unchanged on CPU tensors, and each
``kernel<<<grid, block>>>(...)`` is emulated with every check of :mod:`warpwise.cuda`.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import types
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from warpwise.cache import atomic_write, cache_dir, key
from warpwise.cuda.errors import CompileError, UnsupportedFeature

_loaded: dict[tuple[str, bool], Any] = {}


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: str | Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
    *,
    device: str | None = None,
) -> Any:
    """Build a PyTorch extension from source text and load it.

    The arguments are those of ``torch.utils.cpp_extension.load_inline``, and ``device``.

    ``device`` is "cuda" or "cpu": where CUDA sources run; by default "cuda" if there is a GPU. Built for "cpu":

    - A CPU tensor is treated as a CUDA tensor: in the sources given here ``x.is_cuda()`` is true (and ``is_cpu()``
      false), ``torch::kCUDA`` means ``torch::kCPU``, ``x.cuda()`` is ``x``. The same holds for headers with CUDA code
      in ``extra_include_paths`` that the CUDA sources include; other headers are unchanged.
    - Launches are checked against the target (``$WARPWISE_TARGET``, or sm_90) and run at once. Streams are ignored, and
      events record the host's time.
    - A pointer may access the whole of the tensor or of the ``cudaMalloc`` allocation that it points into. Pointers
      inside a struct or a packed accessor may too; pointers stored in memory may not.
    - ``torch::empty`` is filled with NaN.
    - An extension is built against small substitutes of PyTorch's headers where they suffice, otherwise against
      PyTorch's own, which takes 20 s.

    Returns the module, or with ``is_python_module=False`` the library's path after ``torch.ops.load_library``.

    Raises ``CompileError`` with the line numbers of the sources (several sources of one kind are joined by newlines),
    and ``ValueError`` or ``UnsupportedFeature`` for unsupported arguments. The module's functions raise the
    ``KernelError`` of a launch.
    """
    target = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if target not in ("cuda", "cpu"):
        raise ValueError(f"load_inline: device={device!r}: expected 'cuda' or 'cpu'")
    if not name.isidentifier():
        raise ValueError(f"load_inline: name={name!r} names a Python module, so it must be an identifier")
    cpp, cuda = _texts(cpp_sources), _texts(cuda_sources)
    documented = _documented(functions)
    if target == "cuda":
        options = {
            "extra_cflags": extra_cflags, "extra_cuda_cflags": extra_cuda_cflags, "extra_ldflags": extra_ldflags,
            "extra_include_paths": _paths(extra_include_paths), "with_cuda": with_cuda,
            "is_python_module": is_python_module, "with_pytorch_error_handling": with_pytorch_error_handling,
            "keep_intermediates": keep_intermediates, "use_pch": use_pch, "no_implicit_headers": no_implicit_headers,
            "sycl_sources": _texts(sycl_sources), "extra_sycl_cflags": extra_sycl_cflags, "with_sycl": with_sycl,
        }  # fmt: skip
        return _on_gpu(name, cpp, cuda, documented, build_directory, verbose, options)
    if sycl_sources or with_sycl:
        raise UnsupportedFeature("load_inline: SYCL sources cannot be built for the CPU")
    if extra_cuda_cflags is not None and isinstance(extra_cuda_cflags, str):
        raise ValueError("load_inline: extra_cuda_cflags: expected a list of flags, got a string")

    from warpwise.cuda.inline.build import Sources

    wrap = "torch::wrap_pybind_function({})" if with_pytorch_error_handling else "{}"
    sources = Sources(
        name,
        "\n".join(cpp),
        "\n".join(cuda),
        _bindings(documented, wrap),
        not no_implicit_headers,
        tuple(extra_cflags or ()),
        tuple(extra_cuda_cflags or ()),
        tuple(extra_ldflags or ()),
        tuple(_paths(extra_include_paths)),
    )
    known = (sources.key, is_python_module)
    if known not in _loaded:
        _loaded[known] = _on_cpu(sources, Path(build_directory) if build_directory else None, verbose, is_python_module)
    return _loaded[known]


def _texts(given: str | Sequence[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _paths(given: str | Sequence[str] | None) -> list[str]:
    return [os.fspath(path) for path in ([given] if isinstance(given, str | os.PathLike) else given or ())]


def _documented(functions: str | Sequence[str] | Mapping[str, str] | None) -> dict[str, str] | None:
    """Names and docstrings of the functions to bind; None if the sources bind their own."""
    if functions is None:
        return None
    if isinstance(functions, Mapping):
        return dict(functions)
    if isinstance(functions, str):
        return {functions: functions}
    if isinstance(functions, list | tuple):
        return {function: function for function in functions}
    raise ValueError(f"load_inline: functions: expected a name, a list or a dict, got {type(functions).__name__}")


def _bindings(functions: Mapping[str, str] | None, wrap: str) -> str:
    if functions is None:
        return ""
    lines = [f"m.def({_quoted(name)}, {wrap.format(name)}, {_quoted(doc)});" for name, doc in functions.items()]
    return "\n".join(["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# ---- without a GPU


def _on_cpu(sources: Any, folder: Path | None, verbose: bool, is_python_module: bool) -> Any:
    from warpwise.cuda.inline import build, calls, native
    from warpwise.cuda.inline.device import Extension

    if folder is not None and not folder.is_dir():
        raise ValueError(f"load_inline: build_directory={str(folder)!r} is not a directory")
    folder = folder or cache_dir() / "inline" / f"{sources.name}-{sources.key}"
    library, mark = folder / f"{sources.name}.so", folder / f"{sources.name}.key"
    defines = [flag[2:] for flag in sources.cuda_cflags if flag.startswith("-D")]
    kernels = Extension(sources.key, sources.name, sources.cuda, sources.include, defines) if sources.cuda else None
    there = (
        library.exists() and build.support_library_path().exists() and mark.exists() and mark.read_text() == sources.key
    )
    if not there:
        with ThreadPoolExecutor(1) as pool:
            built = pool.submit(build.extension, sources, library, verbose)
            try:
                if kernels:
                    kernels.build_kernels()
            finally:
                built.result()  # an error of the host code comes first: the kernels' may follow from it
        if kernels:
            kernels.build_first_instances(library)
        atomic_write(mark, sources.key)
    native.load(build.support_library_path(), calls.on_launch)
    if not is_python_module:
        native.enter()  # calls of operators bypass the wrappers, so their tensors are tracked from here on
        torch.ops.load_library(str(library))
        return str(library)
    module = _import(sources.name, library)
    for attribute, value in list(vars(module).items()):
        if isinstance(value, types.BuiltinFunctionType):
            setattr(module, attribute, calls.wrapped(value))
    return module


def _import(name: str, library: Path) -> types.ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, str(library))
    spec = importlib.util.spec_from_file_location(name, library, loader=loader)
    if spec is None:
        raise ImportError(f"load_inline: {library} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


# ---- with a GPU


def _on_gpu(
    name: str,
    cpp: list[str],
    cuda: list[str],
    functions: dict[str, str] | None,
    build_directory: str | None,
    verbose: bool,
    options: dict[str, Any],
) -> Any:
    """PyTorch's own build for one architecture, cached by its sources, flags, toolchain and architecture."""
    major, minor = torch.cuda.get_device_capability() if torch.cuda.is_available() else (0, 0)
    architecture = os.environ.get("TORCH_CUDA_ARCH_LIST") or f"{major}.{minor}"
    from warpwise.cuda.inline.build import states

    made = key(
        name,
        *cpp,
        "|",
        *cuda,
        functions,
        sorted(options.items(), key=str),
        *states(options["extra_include_paths"]),
        architecture,
        torch.__version__,
        torch.version.cuda,
        importlib.machinery.EXTENSION_SUFFIXES[0],
        os.environ.get("CXX"),
        os.environ.get("CUDA_HOME"),
        os.environ.get("TORCH_NVCC_FLAGS"),
    )
    is_python_module = options["is_python_module"]
    if (made, is_python_module) in _loaded:
        return _loaded[made, is_python_module]
    folder = Path(build_directory) if build_directory else cache_dir() / "inline" / f"{name}-{made}"
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f"{name}.key"
    stored = mark.read_text().split("\n") if mark.exists() else [""]
    library = folder / stored[-1]
    if stored[0] == made and library.is_file():
        result = _import(library.stem, library) if is_python_module else _load_library(library)
    else:
        result = _build_by_torch(name, cpp, cuda, functions, folder, verbose, architecture, options)
        # PyTorch numbers the libraries of one name within a process: name.so, name_v1.so ...
        libraries = [path for path in folder.glob("*.so") if re.fullmatch(rf"{name}(_v\d+)?", path.stem)]
        newest = max(libraries, key=lambda path: path.stat().st_mtime_ns)
        atomic_write(mark, f"{made}\n{newest.name}")
    _loaded[made, is_python_module] = result
    return result


def _load_library(library: Path) -> str:
    torch.ops.load_library(str(library))
    return str(library)


def _build_by_torch(
    name: str,
    cpp: list[str],
    cuda: list[str],
    functions: dict[str, str] | None,
    folder: Path,
    verbose: bool,
    architecture: str,
    options: dict[str, Any],
) -> Any:
    from torch.utils import cpp_extension

    given = {option: value for option, value in options.items() if value not in (None, [], False)}
    given["with_pytorch_error_handling"] = options["with_pytorch_error_handling"]
    given["is_python_module"] = options["is_python_module"]
    if functions is not None:
        functions = {
            function: _quoted(doc)[1:-1] for function, doc in functions.items()
        }  # PyTorch quotes them as they are
    before = os.environ.get("TORCH_CUDA_ARCH_LIST")
    os.environ["TORCH_CUDA_ARCH_LIST"] = architecture
    try:
        return cpp_extension.load_inline(
            name, cpp, cuda or None, functions=functions, build_directory=str(folder), verbose=verbose, **given
        )
    except RuntimeError as error:
        if "building extension" in str(error) or "compiling objects" in str(error):
            raise CompileError(f"{name}: {error}") from error
        raise
    finally:
        if before is None:
            del os.environ["TORCH_CUDA_ARCH_LIST"]
        else:
            os.environ["TORCH_CUDA_ARCH_LIST"] = before
