"""Measure launches in a child process, since ncu can only profile a process that it starts."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import warpwise
from warpwise.cuda.launch.views import Out, Strided
from warpwise.lab.errors import MeasurementError
from warpwise.lab.profile.ncu import tool
from warpwise.lab.profile.ncu.capture import CapturedLaunch, captured
from warpwise.lab.profile.ncu.errors import NcuError
from warpwise.lab.profile.ncu.metrics import DEFAULT
from warpwise.lab.profile.ncu.table import Measured


def measure(
    launches: Sequence[CapturedLaunch], metrics: Sequence[str] = DEFAULT, timeout: float = 300.0
) -> list[Measured]:
    """The counters of each launch on this machine's GPU, by ncu. Arguments on the CPU are copied to the GPU.

    The launches run in another process, in order on the same arguments, after one warm-up of all of them. ``timeout``
    is in seconds. The ``kernel`` of a result is the C++ name expression.

    Raises ``MeasurementError`` without a GPU, ``NcuNotFound``, ``NcuPermission`` and ``NcuError``.
    """
    if not launches:
        raise ValueError("measure: expected at least one launch, got none")
    require_gpu("--ncu")
    with tempfile.TemporaryDirectory(prefix="warpwise_launches_") as folder:
        spec = Path(folder) / "launches.pt"
        torch.save([described(launch) for launch in launches], spec)
        command = [sys.executable, "-m", "warpwise.lab.profile.ncu.child", str(spec)]
        measured = tool.profile(command, metrics, environment=environment(), timeout=timeout)
    if len(measured) != len(launches):
        raise NcuError(f"ncu measured {len(measured)} launches, expected {len(launches)}")
    return [replace(found, kernel=launch.expression) for found, launch in zip(measured, launches, strict=True)]


def collect(function: Callable[[], object], metrics: Sequence[str] = DEFAULT, timeout: float = 300.0) -> list[Measured]:
    """The counters of every launch of a ``warpwise.cuda`` kernel in ``function()``, which is called once in this
    process.
    """
    with captured() as launches:
        function()
    return measure(launches, metrics, timeout)


def require_gpu(what: str) -> None:
    """Raise ``MeasurementError`` without a CUDA device."""
    if not torch.cuda.is_available():
        raise MeasurementError(
            f"{what} runs the kernel on a GPU, and PyTorch finds no CUDA device here; without {what} it runs on the CPU"
        )


def environment() -> dict[str, str]:
    """The environment variables with which a child process imports this Warpwise."""
    source = str(Path(warpwise.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{source}{os.pathsep}{inherited}" if inherited else source}


def described(launch: CapturedLaunch) -> dict[str, Any]:
    """A launch as data for ``torch.save``, from which ``restored`` recreates it in another process."""
    launcher = launch.launcher
    module = launcher.kernel.module
    return {
        "text": module.text,
        "file": module.file,
        "include": [str(folder) for folder in module.include],
        "define": module.define,
        "target": module.target,
        "constants": dict(module.constants.values),
        "expression": launcher.kernel.expression,
        "grid": launcher.grid,
        "block": launcher.block,
        "shared_bytes": launcher.shared_bytes,
        "args": [_as_tensor(value) for value in launch.args],
    }


def restored(data: dict[str, Any]) -> CapturedLaunch:
    """The launch described by ``described``."""
    from warpwise.cuda.launch.module import Module

    module = Module(data["text"], data["file"], [Path(folder) for folder in data["include"]], data["define"], None)
    for name, value in data["constants"].items():
        module.set_constant(name, value)
    launcher = module[data["expression"]][data["grid"], data["block"], data["shared_bytes"]]
    return CapturedLaunch(launcher, tuple(data["args"]))


def _as_tensor(value: Any) -> Any:
    """Arrays as tensors, which ``torch.load`` maps to a GPU with their strides and offsets; other values unchanged."""
    if isinstance(value, Out | Strided):
        return type(value)(_as_tensor(value.value))
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value
