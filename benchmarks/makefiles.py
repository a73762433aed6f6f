"""How a project builds and runs a program: what ``make -n`` prints, CMake's macros; nothing is built."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")
_SHELL = re.compile(r"[$|<>&;`*]")
_DATABASES = ("compile_commands.json", "build/compile_commands.json")
_CMAKE = re.compile(
    r"#[^\n]*|\b(if|endif|add_definitions|add_compile_definitions|target_compile_definitions)\s*\(([^)]*)\)"
)
_MACRO = re.compile(r"(?:-D)?([A-Za-z_]\w*(?:=[^\s\"$]*)?)")
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
    """What the Makefile in ``folder`` does, with the macros and include folders of CMake for its files.

    An empty recipe if there is neither, or if ``make`` cannot read the Makefile. Of CMake, the commands in a
    compile_commands.json are read, or else the definitions of the CMakeLists.txt that depend on no condition.
    """
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
    commands = _compile_commands(folder)
    for where, words in commands:
        define.update(dict.fromkeys(_values(words, "-D")))
        include.update((where / each, None) for each in _values(words, "-I") if (where / each).is_dir())
    if not commands:
        define.update(dict.fromkeys(_cmake_macros(folder)))
    return Recipe(*(tuple(part) for part in (sources, define, include, flags, runs)))


def _compile_commands(folder: Path) -> list[tuple[Path, list[str]]]:
    """The commands for files in ``folder``, with the folders where they run.

    They are in the compile_commands.json of ``folder``, or of one of the three folders above it.
    """
    for above in [folder, *folder.parents][:4]:
        for name in _DATABASES:
            if (above / name).is_file():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    entries = json.loads((above / name).read_text(errors="replace"))
                    own = [(Path(each["directory"]), each) for each in entries]
                    own = [(where, e) for where, e in own if (where / e["file"]).parent.resolve() == folder.resolve()]
                    return [(where, e.get("arguments") or shlex.split(e["command"])) for where, e in own]
    return []


def _cmake_macros(folder: Path) -> list[str]:
    """The macros that the CMakeLists.txt in ``folder`` defines for all targets or for one, outside of conditions."""
    file = folder / "CMakeLists.txt"
    found, conditions = [], 0
    for match in _CMAKE.finditer(file.read_text(errors="replace")) if file.is_file() else ():
        command, words = match[1], (match[2] or "").split()
        conditions += (command == "if") - (command == "endif")
        if conditions or command in (None, "if", "endif"):
            continue
        words = words[1:] if command == "target_compile_definitions" else words
        given = [_MACRO.fullmatch(word.strip('"')) for word in words if word not in ("PRIVATE", "PUBLIC", "INTERFACE")]
        found += [each[1] for each in given if each]
    return found


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
