"""nvdisasm, NVIDIA's disassembler: found and run."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from warpwise import cache

_FLAGS = ("-hex", "-gi", "-c")
_NEEDED = "pip install triton (its wheel carries nvdisasm), or install the CUDA toolkit and set CUDA_HOME"


@functools.lru_cache(maxsize=1)
def disassembler() -> Path:
    """Where nvdisasm is: in Triton's wheel, ``$CUDA_HOME``, /usr/local/cuda or on the path.

    Raises ``FileNotFoundError`` saying what to install.
    """
    folders = []
    triton = importlib.util.find_spec("triton")
    if triton is not None:
        folders += [Path(place) / "backends/nvidia/bin" for place in triton.submodule_search_locations or ()]
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home:
        folders.append(Path(home) / "bin")
    folders.append(Path("/usr/local/cuda/bin"))
    for folder in folders:
        if os.access(folder / "nvdisasm", os.X_OK):
            return folder / "nvdisasm"
    found = shutil.which("nvdisasm")
    if found is None:
        raise FileNotFoundError(f"reading machine code needs nvdisasm, which is not here: {_NEEDED}")
    return Path(found)


def disassemble(cubin: bytes) -> str:
    """All functions of ``cubin`` as nvdisasm prints them, with encodings and source lines; kept on disk.

    Raises ``FileNotFoundError`` without nvdisasm, ``RuntimeError`` with what it says if it refuses the cubin.
    """
    tool = disassembler()
    path = cache.cache_dir() / "sass" / f"{cache.key(_FLAGS, str(tool), tool.stat().st_mtime_ns, cubin)}.txt"
    kept = cache.load(path)
    if kept is not None:
        return kept.decode()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([str(tool), *_FLAGS, file.name], capture_output=True, text=True, check=False)
    if done.returncode or "/*0000*/" not in done.stdout:
        said = done.stderr.strip() or "it printed no instruction"
        raise RuntimeError(f"{tool} cannot read the cubin: {said}")
    cache.save(path, done.stdout.encode())
    return done.stdout
