"""A program built by nvcc, for a machine with a GPU."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from warpwise.cache import cache_dir, key
from warpwise.cuda.errors import CompileError
from warpwise.cuda.gpu import nvcc
from warpwise.cuda.program import sources
from warpwise.cuda.program.build import Options
from warpwise.cuda.source import includes


def executable(files: Sequence[Path], options: Options, capability: tuple[int, int]) -> Path:
    """Compile ``files`` by nvcc for a GPU of this compute capability. Raises ``CompileError`` with its messages."""
    sources.require_main(files)
    compiler = nvcc.find()
    if compiler is None:
        raise CompileError("a program is built for the GPU by nvcc: pip install nvidia-cuda-nvcc nvidia-nvvm")
    folders = list(options.include)
    digests = []
    for file in files:
        text = file.read_text(errors="replace")
        folders += includes.project_folders(file, text, folders)
        digests.append(includes.digest(text, includes.included(text, [file.parent, *folders])))
    root = compiler.resolve().parents[1]
    libraries = [root / part for part in ("lib64", "lib") if (root / part).is_dir()]
    output = cache_dir() / "program" / f"{files[0].stem}-{key(*digests, options, capability, nvcc.identity())}"
    if output.exists():
        return output
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [str(compiler), "-O2", "-lineinfo", "-std=c++17", f"-arch=sm_{capability[0]}{capability[1]}"]
    command += [f"-I{folder}" for folder in (*folders, includes.DEVICE_HEADERS, *includes.toolkit())]
    command += [f"-D{define}" for define in options.define] + [f"-L{folder}" for folder in libraries]
    command += [*options.flags, *map(str, files), "-o", str(output)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    if result.returncode:
        raise CompileError(f"nvcc cannot compile the program\n{(result.stderr or result.stdout).strip()}")
    return output
