"""How a project's Makefile builds and runs a program: what ``make -n`` prints, without building anything."""

from __future__ import annotations

import contextlib
import functools
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")
_SHELL = re.compile(r"[$|<>&;`*]")
_SECONDS = 10.0  # limit of `make -n`, which runs $(shell ...)


@dataclass(frozen=True)
class Recipe:
    """A Makefile's sources, macros, include folders and flags of the host compiler, and arguments of its programs.

    ``runs`` holds the command lines that start a program, each as (name of the program, arguments).
    """

    sources: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    include: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()
    runs: tuple[tuple[str, tuple[str, ...]], ...] = ()


@functools.lru_cache(maxsize=64)
def recipe(folder: Path) -> Recipe:
    """What the Makefile in ``folder`` does; an empty recipe if there is none, or if ``make`` cannot read it."""
    lines = _printed(folder)
    for script in ("run", "run.sh"):
        if (folder / script).is_file():
            lines += (folder / script).read_text(errors="replace").splitlines()
    sources: dict[Path, None] = {}
    define: dict[str, None] = {}
    include: dict[Path, None] = {}
    flags: dict[str, None] = {}
    runs: dict[tuple[str, tuple[str, ...]], None] = {}
    for line in lines:
        with contextlib.suppress(ValueError):
            words = shlex.split(line, comments=True)
            started = next((i for i, word in enumerate(words) if word.startswith("./") or word.endswith(".out")), None)
            compiled = [folder / word for word in words if word.endswith(_SOURCES) and (folder / word).is_file()]
            if compiled:
                sources.update(dict.fromkeys(compiled))
                define.update(dict.fromkeys(_values(words, "-D")))
                include.update((folder / each, None) for each in _values(words, "-I") if (folder / each).is_dir())
                flags.update((word, None) for word in words if word.startswith("-std=c++2"))
            elif started == 0 and not _SHELL.search(line):
                runs[words[0].rpartition("/")[2], tuple(words[1:])] = None
    return Recipe(*(tuple(part) for part in (sources, define, include, flags, runs)))


def _printed(folder: Path) -> list[str]:
    if not any((folder / name).is_file() for name in ("Makefile", "makefile")):
        return []
    for target in (["run"], []):
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            done = subprocess.run(
                ["make", "-nB", "--no-print-directory", *target],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
            if done.returncode == 0:
                return done.stdout.replace("\\\n", " ").splitlines()
    return []


def _values(words: list[str], option: str) -> list[str]:
    """The values of ``-Dvalue`` and ``-D value``."""
    joined = [word[2:] for word in words if word.startswith(option) and len(word) > 2]
    apart = [words[i + 1] for i, word in enumerate(words[:-1]) if word == option]
    return joined + apart


# A number of repetitions: `int repeat = atoi(argv[2])`.
_REPETITIONS = re.compile(
    r"\w*(?:rep|iter|step|trial|loop|times|runs)\w*\s*=[^;\n]*\bargv\s*\[\s*(\d+)\s*\]", re.IGNORECASE
)


def reduced(arguments: tuple[str, ...], source: str) -> tuple[str, ...]:
    """Arguments of a program with smaller integers: divided by 5 while at least 100, then by 2 while more than 256.

    A size that is a multiple of a block of 2^k threads remains one. Numbers of repetitions become 2: arguments that
    ``source`` assigns to variables whose names say so.
    """
    repetitions = {int(index) for index in _REPETITIONS.findall(source)}
    made = []
    for index, word in enumerate(arguments, 1):
        value = int(word) if re.fullmatch(r"[1-9]\d*", word) else 0
        made.append(str(min(value, 2) if index in repetitions else _smaller(value)) if value else word)
    return tuple(made)


def _smaller(value: int) -> int:
    while value % 5 == 0 and value >= 100:
        value //= 5
    while value % 2 == 0 and value > 256:
        value //= 2
    return value
