"""Where a number was measured: the device's name, its software and its clocks."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import platform
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import warpwise
from warpwise.lab.timing.gpu import max_sm_clock

PACKAGES = ("torch", "triton", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc")


@lru_cache(maxsize=1)
def cpu_model() -> str:
    """The processor's name as the kernel reports it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def place(device: torch.device) -> str:
    """Where a number comes from: ``NVIDIA H200``, or ``cpu: `` and the processor's name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu: {cpu_model()}"


def environment(device: torch.device) -> dict[str, Any]:
    """Everything about this machine that a number depends on, as plain data; what is not known is left out."""
    found: dict[str, Any] = {
        "device": place(device),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "warpwise": warpwise.__version__,
        "git_commit": git_commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **{name: _version(name) for name in PACKAGES},
        "cuda": torch.version.cuda,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "l2_bytes": properties.L2_cache_size,
            "max_sm_mhz": max_sm_clock(device),
            "driver": driver_version(),
        }
    return {name: value for name, value in found.items() if value is not None}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def git_commit(folder: Path | None = None) -> str | None:
    """The commit that this code is at, with ``+`` after it if files differ from it; None outside a checkout."""
    where = folder or Path(__file__).parents[4]
    if not (where / ".git").exists():
        return None
    try:
        commit = subprocess.run(
            ["git", "-C", where, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            ["git", "-C", where, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "")


def driver_version() -> str | None:
    """The NVIDIA driver's version from NVML, or None where its bindings or its library are missing."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # noqa: BLE001 - the version is worth noting, not worth failing for
        return None
    try:
        version = nvml.nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else str(version)
    finally:
        nvml.nvmlShutdown()
