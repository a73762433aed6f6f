"""Functions of C files, built once into the cache, for rungs that compute on the CPU."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise import cache, native
from warpwise.cuda.errors import MissingTool

FLAGS = ("-O3", "-std=c11", "-shared", "-fPIC", "-fno-math-errno")
_TYPES: dict[str, Any] = {"p": ctypes.c_void_p, "l": ctypes.c_long, "f": ctypes.c_float}


def compiler() -> str:
    """``$CC``, or the first of cc, gcc and clang. Raises ``MissingTool``."""
    names = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    for name in names:
        if found := shutil.which(name):
            return found
    raise MissingTool(f"no C compiler: looked for {', '.join(names)} on PATH; install gcc or clang, or set CC to one")


@functools.cache
def library(source: Path) -> ctypes.CDLL:
    """The library built from ``source``. Raises ``RuntimeError`` with the compiler's message if it does not build."""
    program, text = compiler(), source.read_text()
    folder = cache.cache_dir() / "c"
    built = folder / f"{source.stem}-{cache.key(program, FLAGS, text)}.so"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / built.name
            command = [program, *FLAGS, "-o", str(made), str(source), "-lm"]
            done = native.run(command)
            if done.returncode:
                raise RuntimeError(f"{program} cannot build {source.name}:\n{done.stderr}")
            os.replace(made, built)
    return ctypes.CDLL(str(built))


def function(source: Path, name: str, signature: str) -> Callable[..., None]:
    """``name`` of the C file ``source``, built at its first call.

    ``signature`` has a letter for each parameter: p a pointer (a contiguous tensor, or None for a null pointer), l a
    long, f a float. Raises ``RuntimeError`` with the compiler's message if the file does not build, and ``ValueError``
    for a tensor that is not on the CPU.
    """

    def call(*args: Any) -> None:
        for arg in args:
            if isinstance(arg, torch.Tensor) and not arg.is_cpu:
                raise ValueError(f"{name}: expected tensors on the CPU, got one on {arg.device}; move it with .cpu()")
        found = getattr(library(source), name)
        found.argtypes, found.restype = [_TYPES[letter] for letter in signature], None
        found(*(arg.data_ptr() if isinstance(arg, torch.Tensor) else arg for arg in args))

    return call
