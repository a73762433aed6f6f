"""CUTLASS's Hopper kernels as opponents of matmul, built with nvcc from the headers of the wheel `nvidia-cutlass`.

>>> multiplied = cutlass_opponent.build(torch.bfloat16)   # {"CUTLASS 128x256 Cooperative": function, ...}

Raises ``Unavailable`` if nvcc, CUTLASS or a Hopper GPU is missing.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from warpwise import cache

SOURCE = Path(__file__).parent / "cutlass_gemm.cu"
ELEMENTS = {torch.bfloat16: "cutlass::bfloat16_t", torch.float16: "cutlass::half_t"}
TILES = ((128, 256, "Cooperative"), (256, 128, "Cooperative"), (128, 128, "Pingpong"), (64, 256, "Pingpong"))

EPILOGUES = {"Cooperative": "TmaWarpSpecializedCooperative", "Pingpong": "TmaWarpSpecialized"}


class Unavailable(RuntimeError):
    """CUTLASS cannot be built or run here; the message gives the reason."""


def headers() -> list[Path]:
    """CUTLASS's include folders, in $CUTLASS_PATH or in the wheel `nvidia-cutlass`."""
    given = os.environ.get("CUTLASS_PATH")
    spec = None if given else importlib.util.find_spec("cutlass_library")
    if not given and (spec is None or not spec.submodule_search_locations):
        raise Unavailable("no CUTLASS: pip install nvidia-cutlass, or set CUTLASS_PATH to a checkout")
    root = Path(given) if given else Path(next(iter(spec.submodule_search_locations))) / "source"
    return [root / "include", root / "tools" / "util" / "include"]


def build(dtype: torch.dtype, tiles: Sequence[tuple[int, int, str]] = TILES) -> dict[str, Callable[..., torch.Tensor]]:
    """A function (a, b) -> a @ b of contiguous matrices for each tile, by name. They are built once, in parallel."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise Unavailable("no nvcc on PATH")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        raise Unavailable("these kernels need a GPU of compute capability 9.0")
    folders = headers()
    with ThreadPoolExecutor(len(tiles)) as pool:
        libraries = list(pool.map(lambda tile: _library(nvcc, folders, dtype, tile), tiles))
    return {
        f"CUTLASS {rows}x{columns} {schedule}": functools.partial(_multiply, library)
        for (rows, columns, schedule), library in zip(tiles, libraries, strict=True)
    }


def _library(nvcc: str, folders: Sequence[Path], dtype: torch.dtype, tile: tuple[int, int, str]) -> ctypes.CDLL:
    rows, columns, schedule = tile
    options = [
        "-std=c++17", "-O3", "-DNDEBUG", "-gencode=arch=compute_90a,code=sm_90a", "--expt-relaxed-constexpr", "-w",
        "-Xcompiler", "-fPIC", "-shared", f"-DELEMENT={ELEMENTS[dtype]}", f"-DROWS={rows}", f"-DCOLUMNS={columns}",
        f"-DSCHEDULE=KernelTmaWarpSpecialized{schedule}", f"-DEPILOGUE={EPILOGUES[schedule]}",
        *(f"-I{folder}" for folder in folders),
    ]  # fmt: skip
    target = cache.cache_dir() / "cutlass" / f"{cache.key(SOURCE.read_text(), nvcc, *options)}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        made = target.with_suffix(f".{os.getpid()}")
        built = subprocess.run(
            [nvcc, *options, str(SOURCE), "-o", str(made)], check=False, capture_output=True, text=True
        )
        if built.returncode:
            raise Unavailable(f"nvcc failed on {SOURCE.name}:\n{built.stderr[-2000:]}")
        made.replace(target)
    library = ctypes.CDLL(str(target))
    library.workspace_bytes.restype = ctypes.c_longlong
    library.workspace_bytes.argtypes = [ctypes.c_int] * 3
    library.multiply.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int] * 3 + [ctypes.c_void_p] * 2
    return library


def _multiply(library: ctypes.CDLL, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = a.new_empty(m, n)
    workspace = torch.empty(library.workspace_bytes(m, n, k), dtype=torch.uint8, device=a.device)
    stream = torch.cuda.current_stream(a.device).cuda_stream
    status = library.multiply(a.data_ptr(), b.data_ptr(), c.data_ptr(), m, n, k, workspace.data_ptr(), stream)
    if status:
        raise Unavailable(f"CUTLASS does not support {m} x {n} x {k}: status {status}")
    return c
