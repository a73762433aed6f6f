"""The build of the C++ library, in a separate background process, once for each version of PyTorch.

It needs g++ or clang++, and Python's headers, which Triton needs too. PyTorch's headers come with PyTorch. Those that
``THPVariable`` is declared with take g++ as long as all the rest: ``include/light`` has small ones in their place.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from warpwise import cache, native

VARIABLE = "WARPWISE_FASTCALL"  # "0": never; "1": also without a GPU, and built before the first call
_SOURCES = Path(__file__).parent


class BuildError(RuntimeError):
    """The compilation failed; the message is the compiler's output."""


def recipe() -> dict[str, Any]:
    """The arguments of ``native.library``. Raises ``NoCompiler``, or ``BuildError`` if the compiler cannot be used."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise BuildError("PyTorch is not installed")
    torch = Path(spec.origin).parent
    command = native.compiler()
    if "zig" in command[0]:
        raise BuildError("ziglang has another C++ library than PyTorch: install g++ or clang++")
    include = (torch / "include", torch / "include/torch/csrc/api/include", Path(sysconfig.get_path("include")))
    version = cache.key((torch / "version.py").read_bytes())  # PyTorch's headers are not part of the library's key
    flags = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-w", f"-DWARPWISE_TORCH=0x{version[:8]}")
    return {
        "stem": "fastcall",
        "sources": _SOURCES,
        "command": (*command, *flags, *(part for folder in include for part in ("-isystem", str(folder)))),
        "unit_of": lambda name: "all",
        "link": (f"-L{torch / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10"),
        "error": BuildError,
        "light": _SOURCES / "include" / "light",
    }


def target() -> Path:
    """The path of the library, which may not be built yet."""
    return native.path_of(**{name: value for name, value in recipe().items() if name not in ("unit_of", "error")})


def log(library: Path) -> Path:
    """The file with the messages of a failed build."""
    return library.with_suffix(".log")


def build() -> Path:
    """Build the library unless the cache has it. Raises ``NoCompiler`` and ``BuildError``."""
    return native.library(**recipe())


def start() -> subprocess.Popen[bytes]:
    """Build the library in a separate process, which may run longer than this one."""
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import main; main()"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


def main() -> None:
    """Build the library. After a failure, write the messages to ``log``."""
    try:
        build()
    except BuildError as error:
        cache.atomic_write(log(target()), str(error))
