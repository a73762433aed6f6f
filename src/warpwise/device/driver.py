"""Device attributes from the CUDA driver (libcuda)."""

from __future__ import annotations

import ctypes
import functools
import re
from pathlib import Path

# Members of CUdevice_attribute, cuda.h.
ATTRIBUTES = {
    "threads_per_block": 1, "block_x": 2, "block_y": 3, "block_z": 4, "grid_x": 5, "grid_y": 6, "grid_z": 7,
    "shared_per_block": 8, "constant_bytes": 9, "warp_size": 10, "registers_per_block": 12, "clock_khz": 13,
    "sm_count": 16, "memory_clock_khz": 36, "memory_bus_bits": 37, "l2_bytes": 38, "threads_per_sm": 39,
    "major": 75, "minor": 76, "shared_per_sm": 81, "registers_per_sm": 82, "shared_per_block_optin": 97,
    "blocks_per_sm": 106, "shared_reserved_per_block": 111,
}  # fmt: skip


@functools.lru_cache(maxsize=1)
def _libcuda() -> ctypes.CDLL:
    library = ctypes.CDLL("libcuda.so.1")
    code = library.cuInit(0)
    if code:
        raise RuntimeError(f"CUDA driver initialisation failed: cuInit returned error {code}")
    return library


@functools.lru_cache(maxsize=64)
def attribute(index: int, name: str) -> int:
    """Return one of ``ATTRIBUTES`` of ``cuda:index``. Raises ``RuntimeError`` for a driver error."""
    value, device = ctypes.c_int(), ctypes.c_int()
    library = _libcuda()
    code = library.cuDeviceGet(ctypes.byref(device), index)
    code = code or library.cuDeviceGetAttribute(ctypes.byref(value), ATTRIBUTES[name], device)
    if code:
        raise RuntimeError(f"CUDA driver error {code}: attribute {name} of device {index}")
    return value.value


def driver_version() -> str:
    """Return the NVIDIA driver version ("580.159.04"), or the driver's CUDA version if it cannot be read."""
    for path, pattern in (
        ("/sys/module/nvidia/version", r"(\S+)"),
        ("/proc/driver/nvidia/version", r"\b(\d+\.\d+(?:\.\d+)?)\b"),
    ):
        try:
            text = Path(path).read_text()
        except OSError:
            continue
        if match := re.search(pattern, text):
            return match[1]
    version = ctypes.c_int()
    _libcuda().cuDriverGetVersion(ctypes.byref(version))
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
