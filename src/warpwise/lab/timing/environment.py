"""Where a number was measured: the device's name, its software and its clocks."""

from __future__ import annotations

import platform
from functools import lru_cache
from pathlib import Path

import torch


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
