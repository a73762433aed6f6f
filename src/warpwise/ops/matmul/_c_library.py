"""C sources as shared libraries, built once by the system's compiler and kept in Warpwise's cache."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from warpwise import cache
from warpwise.cuda.errors import MissingTool

FLAGS = ("-O3", "-std=c11", "-shared", "-fPIC")


def compiler() -> str:
    """``$CC``, or the first of cc, gcc and clang there is; ``MissingTool`` says what to install."""
    names = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    for name in names:
        if found := shutil.which(name):
            return found
    raise MissingTool(f"no C compiler: looked for {', '.join(names)} on PATH; install gcc or clang, or set CC to one")


@functools.cache
def library(source: Path) -> ctypes.CDLL:
    """The library built from ``source``; ``RuntimeError`` with the compiler's message if it does not build."""
    program, text = compiler(), source.read_text()
    folder = cache.cache_dir() / "c"
    built = folder / f"{source.stem}-{cache.key(program, FLAGS, text)}.so"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / built.name
            done = subprocess.run([program, *FLAGS, "-o", made, source], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{program} cannot build {source.name}:\n{done.stderr}")
            os.replace(made, built)
    return ctypes.CDLL(str(built))
