"""The environment of a measurement: device, software and clocks."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import platform
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import warpwise
from warpwise.device import Description, describe

PACKAGES = ("torch", "triton", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc")


def resolve(device: torch.device | str | None) -> torch.device:
    """The given device, else the GPU if there is one, else the CPU.

    Raises ``ValueError`` for a device other than a CPU or an available CUDA device.
    """
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    try:
        asked = torch.device(device if device is not None else "cuda" if there else "cpu")
    except RuntimeError:
        raise ValueError(f"device {device!r}: expected 'cpu', 'cuda' or 'cuda:1'") from None
    if asked.type == "cpu":
        return torch.device("cpu")
    if asked.type != "cuda":
        raise ValueError(f"device {device!r}: expected 'cpu', 'cuda' or 'cuda:1'")
    if (asked.index or 0) >= there:
        have = f"there are {there}" if there else "there is no CUDA device here; choose 'cpu'"
        raise ValueError(f"device {device!r}: {have}")
    return torch.device("cuda", torch.cuda.current_device()) if asked.type == "cuda" and asked.index is None else asked


def current(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """A context in which ``device`` is the current device."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


@lru_cache(maxsize=8)
def place(device: torch.device) -> str:
    """The name of a device: ``NVIDIA H200``, or ``cpu: `` and the processor's name."""
    name = describe(device).name
    return name if device.type == "cuda" else f"cpu: {name}"


def environment(device: torch.device) -> dict[str, Any]:
    """The properties of this machine that timings depend on, as JSON values; unknown ones are left out."""
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
        found |= _gpu(describe(device))
    return {name: value for name, value in found.items() if value is not None}


def _gpu(described: Description) -> dict[str, Any]:
    return {
        "target": described.profile.name if described.profile else None,
        "multiprocessors": described.sm_count,
        "l2_bytes": described.l2_bytes,
        "max_sm_mhz": described.clock_hz / 1e6 if described.clock_hz else None,
        "driver": described.driver.partition(",")[0],
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def git_commit(folder: Path | None = None) -> str | None:
    """The commit of this checkout, with ``+`` if files differ from it; None outside a checkout."""
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
