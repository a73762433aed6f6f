"""``warpwise doctor``: check what works on this machine, and name what to install for the rest."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.markup import escape

import warpwise
from warpwise import cache, fastcall, native
from warpwise.cli.console import wide_console

_NAME_WIDTH = len("compute-sanitizer")


@dataclass(frozen=True)
class Check:
    """One check: its subject, whether it works, what was found, its purpose, and the remedy if it does not work."""

    what: str
    works: bool
    found: str
    purpose: str
    remedy: str = ""


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _compiler() -> Check:
    try:
        command = native.compiler()
    except native.NoCompiler as error:
        return Check("C++ compiler", False, "none", "CUDA C++ on the CPU", str(error))
    answer = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    found = answer.stdout.partition("\n")[0] or f"{command[0]}: {answer.stderr.strip()}"
    return Check(
        "C++ compiler", bool(answer.stdout), found, "CUDA C++ on the CPU", "set WARPWISE_CXX to another compiler"
    )


def _fastcall() -> Check:
    purpose = "calls of operations in C++"
    try:
        fastcall.build()
    except (fastcall.BuildError, native.NoCompiler, OSError) as error:
        return Check("fastcall", False, str(error).partition("\n")[0], purpose, "install g++ and Python's headers")
    return Check("fastcall", True, "built", purpose)


def _emulator() -> Check:
    from warpwise import cuda

    purpose, tensor = "CUDA C++ on the CPU, checked", torch.zeros(32)
    source = "__global__ void probe(float* x) { x[threadIdx.x] = threadIdx.x; }"
    try:
        cuda.load(source)["probe"][1, 32](cuda.out(tensor))
    except (cuda.KernelError, OSError) as error:
        return Check(
            "emulator",
            False,
            str(error).partition("\n")[0],
            purpose,
            "`warpwise check` shows the whole message",
        )
    works = bool((tensor == torch.arange(32)).all())
    return Check("emulator", works, "ran a kernel of 32 threads", purpose, "report this as a bug")


def _nvrtc() -> Check:
    from warpwise import cuda

    purpose = "CUDA C++ to machine code"
    remedy = "pip install 'warpwise[cuda]'"
    try:
        cubin = cuda.load("__global__ void probe(float* x) { x[0] = 1; }")["probe"].cubin("sm_90")
    except (cuda.KernelError, ImportError, OSError, RuntimeError) as error:
        return Check("NVRTC", False, str(error).partition("\n")[0], purpose, remedy)
    return Check(
        "NVRTC",
        True,
        f"{_version('nvidia-cuda-nvrtc') or 'of the CUDA toolkit'}, compiled {len(cubin):,} bytes for sm_90",
        purpose,
        remedy,
    )


def _triton() -> Check:
    version = _version("triton")
    return Check(
        "Triton",
        version is not None,
        version or "none",
        "Triton kernels, also interpreted",
        "pip install 'triton>=3.5'",
    )


def _gpu() -> Check:
    if not torch.cuda.is_available():
        driver = ctypes.util.find_library("cuda")
        found = "none" if not driver else "a driver, but this torch sees no device"
        remedy = (
            "not required; to use one, install a CUDA build of torch"
            if torch.version.cuda is None
            else "check nvidia-smi"
        )
        return Check("GPU", False, found, "running and timing on a GPU", remedy)
    names = {torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    return Check(
        "GPU",
        True,
        f"{torch.cuda.device_count()} × {', '.join(names)}, CUDA {torch.version.cuda}",
        "running and timing on a GPU",
    )


def _tool(name: str, purpose: str) -> Check:
    path = shutil.which(name)
    return Check(name, path is not None, path or "none", purpose, "comes with the CUDA toolkit")


def _cache() -> Check:
    try:
        folder = cache.cache_dir()
        with tempfile.NamedTemporaryFile(dir=folder):
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    except OSError as error:
        return Check(
            "cache",
            False,
            str(error),
            "stores compiled kernels",
            "set WARPWISE_CACHE to a writable folder",
        )
    return Check("cache", True, f"{_home(folder)}, {size / 1e6:.0f} MB", "stores compiled kernels")


def _home(path: Path) -> str:
    return str(path).replace(str(Path.home()), "~", 1)


def checks() -> Iterator[Check]:
    """All checks in order, each run when the iterator reaches it."""
    yield Check("Python", True, platform.python_version(), "")
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    yield Check("torch", True, f"{torch.__version__} ({built} build)", "tensors and opponents")
    rest: tuple[Callable[[], Check], ...] = (_compiler, _fastcall, _emulator, _nvrtc, _triton, _gpu, _cache)
    for check in rest:
        yield check()
    yield _tool("ncu", "hardware counters")
    yield _tool("compute-sanitizer", "memory checks on the GPU")


def doctor() -> int:
    """Run ``warpwise doctor``, with the options of ``warpwise.cli.commands.doctor``."""
    console = wide_console()
    console.print(f"warpwise {warpwise.__version__} on {platform.system()} {platform.machine()}")
    results = []
    with console.status("checking; the first time the emulator is compiled, which takes a minute"):
        for check in checks():
            results.append(check)
            mark = "[green]✓[/]" if check.works else "[yellow]–[/]"
            purpose = f" [dim]({check.purpose})[/]" if check.purpose else ""
            console.print(f"{mark} {check.what:<{_NAME_WIDTH}}  {escape(check.found)}{purpose}", soft_wrap=True)
            if not check.works and check.remedy:
                console.print(f"{' ' * (_NAME_WIDTH + 4)}[yellow]→ {escape(check.remedy)}[/]", soft_wrap=True)
    working = {check.what: check.works for check in results}
    return 0 if working["emulator"] or working["GPU"] else 1
