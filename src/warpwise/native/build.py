"""Build shared libraries from the package's C++ sources and cache them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warpwise import cache
from warpwise.native.toolchain import compiler, is_clang, run

INCLUDE = Path(__file__).parent / "include"


def library(
    stem: str,
    sources: Path,
    command: Sequence[str],
    unit_of: Callable[[str], str],
    link: Sequence[str],
    error: Callable[[str], Exception],
    precompiled: str = "",
    light: Path | None = None,
) -> Path:
    """Return ``<cache>/<stem>_<key>.so``, built from the .cpp files in ``sources`` unless the cache has it.

    The key covers the files, ``command`` (the compiler and its flags) and ``link`` (arguments of the linker). Files for
    which ``unit_of`` returns the same name form one translation unit; units are compiled in parallel. ``precompiled``
    names a header in ``sources`` that g++ precompiles and includes at the start of every unit. ``light`` is a folder of
    small headers in place of those that ``command`` names with ``-isystem``; if the files do not compile with them,
    they are compiled without.

    Raises ``error(text)`` with the compiler's messages if it fails.
    """
    files = _files(sources)
    target = path_of(stem, sources, command, link, precompiled, light)
    with cache.build_lock(target) as must_build:
        if must_build:
            with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                build = _Build((*command, f"-I{sources}", f"-I{INCLUDE}"), Path(folder), error)
                header = sources / precompiled if precompiled else None
                units = _units(files, unit_of)
                try:
                    objects = build.compile(units, header, light)
                except Exception:
                    if light is None:
                        raise
                    objects = build.compile(units, header)
                made = f"{folder}/{target.name}"
                build.run(("-shared", *objects, f"-Wl,-soname,{target.name}", "-o", made, *link))
                os.replace(made, target)
    return target


def path_of(
    stem: str,
    sources: Path,
    command: Sequence[str],
    link: Sequence[str],
    precompiled: str = "",
    light: Path | None = None,
) -> Path:
    """Return the path that ``library`` returns for these arguments; the file need not exist."""
    small = sorted(path for path in light.rglob("*") if path.is_file()) if light else []
    parts = (part for path in (*_files(sources), *small) for part in (path.name, path.read_bytes()))
    name = cache.key(*command, *link, precompiled, *parts)
    return cache.cache_dir() / f"{stem}_{name}.so"


def _files(sources: Path) -> list[Path]:
    return [path for folder in (sources, INCLUDE) for path in sorted(folder.iterdir()) if path.suffix in (".cpp", ".h")]


def _units(files: Sequence[Path], unit_of: Callable[[str], str]) -> list[str]:
    """Return the text of each translation unit, largest first, so that the longest compilation starts first."""
    text: dict[str, str] = {}
    size: dict[str, int] = {}
    for path in files:
        if path.suffix == ".cpp":
            unit = unit_of(path.name)
            text[unit] = text.get(unit, "") + f'#include "{path.name}"\n'
            size[unit] = size.get(unit, 0) + path.stat().st_size
    return [text[unit] for unit in sorted(text, key=lambda unit: size[unit], reverse=True)]


class _Build:
    """Compiler processes that write into one temporary folder."""

    def __init__(self, command: Sequence[str], folder: Path, error: Callable[[str], Exception]) -> None:
        self._command, self._folder, self._error = command, folder, error

    def run(self, arguments: Sequence[str], text: str = "") -> None:
        done = run([*self._command, *arguments], input=text)
        if done.returncode:
            raise self._error(done.stderr)

    def compile(self, units: Sequence[str], precompiled: Path | None, light: Path | None = None) -> list[str]:
        """Compile each unit; return the paths of the objects. ``light`` is searched for headers first."""
        first: tuple[str, ...] = (f"-I{light}",) if light else ()
        if precompiled is not None and not is_clang(compiler()):
            header = self._folder / "precompiled.h"
            header.write_text(f'#include "{precompiled}"\n')
            self.run((*first, "-x", "c++-header", str(header), "-o", f"{header}.gch"))
            first = (*first, "-include", str(header))
        objects = [f"{self._folder}/{number}.o" for number in range(len(units))]
        arguments = [(*first, "-x", "c++", "-", "-c", "-o", path) for path in objects]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.run, arguments, units))
        return objects
