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

# No data flow: it would annotate the targets of indirect branches, and takes a quarter of the time.
_FLAGS = ("-hex", "-gi", "-c", "-ndf")
_NEEDED = "pip install triton (its wheel carries nvdisasm), or install the CUDA toolkit and set CUDA_HOME"


@functools.lru_cache(maxsize=1)
def disassemblers() -> tuple[Path, ...]:
    """Every nvdisasm here: in Triton's wheel, ``$CUDA_HOME``, /usr/local/cuda and on the path.

    Raises ``FileNotFoundError`` saying what to install if there is none.
    """
    folders = []
    triton = importlib.util.find_spec("triton")
    if triton is not None:
        folders += [Path(place) / "backends/nvidia/bin" for place in triton.submodule_search_locations or ()]
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home:
        folders.append(Path(home) / "bin")
    folders.append(Path("/usr/local/cuda/bin"))
    found = [folder / "nvdisasm" for folder in folders if os.access(folder / "nvdisasm", os.X_OK)]
    on_path = shutil.which("nvdisasm")
    found += [Path(on_path)] if on_path else []
    if not found:
        raise FileNotFoundError(f"reading machine code needs nvdisasm, which is not here: {_NEEDED}")
    return tuple(dict.fromkeys(found))


def disassemble(cubin: bytes) -> str:
    """All functions of ``cubin`` as nvdisasm prints them, with encodings and source lines; kept on disk.

    Where there are several, the first that knows the architecture is taken. Raises ``FileNotFoundError`` without
    nvdisasm, ``RuntimeError`` with what it says if it refuses the cubin.
    """
    refusals = []
    for tool in disassemblers():
        path = cache.cache_dir() / "sass" / f"{cache.key(_FLAGS, str(tool), tool.stat().st_mtime_ns, cubin)}.txt"
        kept = cache.load(path)
        if kept is not None:
            return kept.decode()
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            done = subprocess.run([str(tool), *_FLAGS, file.name], capture_output=True, text=True, check=False)
        if done.returncode == 0 and "/*0000*/" in done.stdout:
            cache.save(path, done.stdout.encode())
            return done.stdout
        refusals.append(f"{tool}: {done.stderr.strip() or 'it printed no instruction'}")
    raise RuntimeError("nvdisasm cannot read the cubin: " + "; ".join(refusals))
