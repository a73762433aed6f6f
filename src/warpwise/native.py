"""The C++ compiler of this machine, and the package's own libraries built by it once into the cache."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warpwise import cache

SHARED = Path(__file__).parent / "runtime"  # headers of every library
_FEATURES = {
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "bmi1": "bmi",
    "bmi2": "bmi2",
    "popcnt": "popcnt",
    "abm": "lzcnt",
}


class NoCompiler(FileNotFoundError):
    """There is no C++17 compiler; the message says what to install."""


def compiler() -> tuple[str, ...]:
    """The C++17 compiler as it is called: the words of ``$WARPWISE_CXX``, else g++, clang++, c++ or ziglang's. Raises ``NoCompiler``."""
    return _found(os.environ.get("WARPWISE_CXX"), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=4)
def _found(named: str | None, path: str) -> tuple[str, ...]:
    if named and (words := named.split()):
        if shutil.which(words[0], path=path) is None:
            raise NoCompiler(f"WARPWISE_CXX names {named!r}, which is no program here")
        return tuple(words)
    for program in ("g++", "clang++", "c++"):
        if shutil.which(program, path=path):
            return (program,)
    try:
        import ziglang
    except ImportError:
        raise NoCompiler(
            "install g++ (apt install g++, dnf install gcc-c++), or `pip install ziglang`, or set WARPWISE_CXX"
        ) from None
    return (str(Path(ziglang.__file__).parent / "zig"), "c++")


def vector_flags() -> tuple[str, ...]:
    """Instructions of this processor, by feature and not by -march=native: the same flags, the same library."""
    if platform.machine() != "x86_64":
        return ()
    try:
        there = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return ()
    return tuple(f"-m{flag}" for feature, flag in _FEATURES.items() if feature in there)


def library(
    stem: str,
    sources: Path,
    command: Sequence[str],
    unit_of: Callable[[str], str],
    link: Sequence[str],
    refused: Callable[[str], Exception],
) -> Path:
    """``<cache>/<stem>_<key>.so``, made of the .cpp files in ``sources`` if these files and this command have not met before.

    ``command`` is a compiler and its flags, ``link`` what the linker gets besides. Files of which ``unit_of`` gives the
    same name are one translation unit, and units are compiled side by side. Raises ``refused(what the compiler says)``.
    """
    files = [path for folder in (sources, SHARED) for path in sorted(folder.iterdir()) if path.suffix in (".cpp", ".h")]
    name = cache.key(*command, *link, *(part for path in files for part in (path.name, path.read_bytes())))
    target = cache.cache_dir() / f"{stem}_{name}.so"
    units: dict[str, str] = {}
    for path in files:
        if path.suffix == ".cpp":
            unit = unit_of(path.name)
            units[unit] = units.get(unit, "") + f'#include "{path.name}"\n'

    def run(arguments: Sequence[str], text: str = "") -> None:
        done = subprocess.run([*command, *arguments], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise refused(done.stderr)

    with cache.made_once(target) as missing:
        if missing:
            folders = (f"-I{sources}", f"-I{SHARED}")
            with tempfile.TemporaryDirectory(dir=target.parent) as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = [f"{folder}/{number}.o" for number in range(len(units))]
                compiled = [(*folders, "-x", "c++", "-", "-c", "-o", made) for made in objects]
                list(pool.map(run, compiled, units.values()))
                made = f"{folder}/{target.name}"
                run(("-shared", *objects, f"-Wl,-soname,{target.name}", "-o", made, *link))
                os.replace(made, target)
    return target
