"""Find the C++ compiler and the vector extensions of the CPU."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Features in /proc/cpuinfo, and the flags that allow the compiler to use them.
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
    """No C++17 compiler was found; the message names the packages to install."""


def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a compiler and return its exit code and its messages. ``options`` are those of ``subprocess.run``.

    Raises ``KeyboardInterrupt`` if Ctrl-C, which a terminal sends to all processes of a command, ended the compiler:
    a program that handles SIGINT itself gets none from Python.
    """
    done = subprocess.run(command, **{"capture_output": True, "text": True, **options}, check=False)
    if done.returncode == -signal.SIGINT:
        raise KeyboardInterrupt(f"{command[0]}: interrupted")
    return done


def compiler() -> tuple[str, ...]:
    """Return the command of the C++17 compiler: ``$WARPWISE_CXX``, or the first of g++, clang++, c++ and ziglang.

    Raises ``NoCompiler``.
    """
    return _find(os.environ.get("WARPWISE_CXX"), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=4)
def _find(named: str | None, path: str) -> tuple[str, ...]:
    if named and (words := named.split()):
        if shutil.which(words[0], path=path) is None:
            raise NoCompiler(f"WARPWISE_CXX={named!r}: there is no such program")
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


@functools.lru_cache(maxsize=8)
def version(command: tuple[str, ...]) -> str:
    """Return what the compiler ``command`` prints for ``--version``."""
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout


def is_clang(command: tuple[str, ...]) -> bool:
    """Return True for clang, whose flags and precompiled headers differ from those of g++."""
    return "clang" in version(command)


@functools.lru_cache(maxsize=8)
def header_folders(command: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the folders that the compiler ``command`` searches for `#include <...>`."""
    asked = [*command, "-E", "-v", "-x", "c++", os.devnull]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    log = subprocess.run(asked, capture_output=True, text=True, check=False, env=environment).stderr
    listed = log.partition("#include <...> search starts here:")[2].partition("End of search list")[0]
    return tuple(Path(line.strip()) for line in listed.splitlines() if line.strip())


def vector_flags() -> tuple[str, ...]:
    """Return a compiler flag for each vector extension of this CPU.

    Unlike ``-march=native``, these flags are part of a library's cache key and name exactly what the library needs.
    """
    if platform.machine() != "x86_64":
        return ()
    try:
        present = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return ()
    return tuple(f"-m{flag}" for feature, flag in _FEATURES.items() if feature in present)
