"""The package's own libraries in C++, built once into the cache: what the emulator's and the machine's runtimes share."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warpwise import cache

SHARED = Path(__file__).parent / "runtime"  # headers of every library


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
