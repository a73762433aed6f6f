"""The launcher of k02."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

from warpwise import cache
from warpwise.cuda.errors import MissingTool
from warpwise.gemm.operands import sizes

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


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    function = library(Path(__file__).with_suffix(".c")).matmul
    function.argtypes, function.restype = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3, None
    function(a.data_ptr(), b.data_ptr(), c.data_ptr(), *sizes(a, b))
