"""Find and run nvdisasm, NVIDIA's disassembler."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from warpwise import cache

# -ndf: no data-flow analysis, which only annotates the targets of indirect branches and takes a quarter of the time.
_FLAGS = ("-hex", "-gi", "-c", "-ndf")
# Huge pages: nvdisasm allocates large tables before it reads the file, whatever its size.
_TUNABLES = "glibc.malloc.hugetlb=1"
_INSTALL = "pip install triton (its wheel contains nvdisasm), or install the CUDA toolkit and set CUDA_HOME"


@functools.lru_cache(maxsize=1)
def disassemblers() -> tuple[Path, ...]:
    """Return every nvdisasm found in Triton's wheel, ``$CUDA_HOME``, /usr/local/cuda and on ``$PATH``.

    Raises ``FileNotFoundError`` with install instructions if there is none.
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
        raise FileNotFoundError(f"nvdisasm not found: {_INSTALL}")
    return tuple(dict.fromkeys(found))


def disassemble(cubin: bytes) -> str:
    """Disassemble all functions of ``cubin``, with encodings and source lines. The result is cached on disk.

    Uses the first nvdisasm that supports the cubin's architecture. Raises ``FileNotFoundError`` if none is installed,
    ``RuntimeError`` with nvdisasm's message if none can read the cubin.
    """
    errors = []
    for tool in disassemblers():
        path = cache.cache_dir() / "sass" / f"{cache.key(_FLAGS, str(tool), tool.stat().st_mtime_ns, cubin)}.txt"
        cached = cache.load(path)
        if cached is not None:
            return cached.decode()
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            command, environment = [str(tool), *_FLAGS, file.name], {"GLIBC_TUNABLES": _TUNABLES, **os.environ}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode == 0 and "/*0000*/" in done.stdout:
            cache.save(path, done.stdout.encode())
            return done.stdout
        errors.append(f"{tool}: {done.stderr.strip() or 'it printed no instructions'}")
    raise RuntimeError("nvdisasm cannot read the cubin: " + "; ".join(errors))
