"""The few things that a GPU timer asks of a device, through torch and the driver; a fake with the same methods tests the timer."""

from __future__ import annotations

import ctypes
import importlib
import shutil
import subprocess
from functools import lru_cache
from typing import Any, Protocol

import torch

FLUSH = 2  # times the L2 cache: what is written to push everything else out of it


class Event(Protocol):
    """A point in the stream, as ``torch.cuda.Event`` with timing has it."""

    def record(self) -> None: ...
    def query(self) -> bool: ...
    def synchronize(self) -> None: ...
    def elapsed_time(self, end_event: Any) -> float: ...


class Gpu:
    """One CUDA device and its current stream."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.name = torch.cuda.get_device_name(device)
        self.l2_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
        self.max_mhz = max_sm_clock(device)
        self._scratch = torch.empty(max(1, FLUSH * self.l2_bytes), dtype=torch.int8, device=device)
        self._driver = _driver()

    @property
    def resets_persisting(self) -> bool:
        """Whether persisting L2 lines can be reset here."""
        return self._driver is not None

    def event(self) -> Event:
        return torch.cuda.Event(enable_timing=True)

    def spin(self, cycles: int) -> None:
        """Keep the stream busy for so many SM clock cycles."""
        torch.cuda._sleep(cycles)

    def flush(self) -> None:
        """Write twice the L2 cache's size."""
        self._scratch.zero_()

    def reset_persisting(self) -> None:
        """Turn persisting L2 lines into ordinary ones, which a flush can then push out."""
        if self._driver is not None:
            status = self._driver.cuCtxResetPersistingL2Cache()
            if status:
                raise RuntimeError(f"cuCtxResetPersistingL2Cache: the driver returned error {status}")

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.device)

    def graph(self, call: Any, repeats: int) -> Any:
        """A CUDA graph of ``repeats`` calls one after another; ``call`` must be ready to be captured."""
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            call()
        torch.cuda.current_stream(self.device).wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            for _ in range(repeats):
                call()
        return captured


@lru_cache(maxsize=1)
def _driver() -> Any:
    """The driver's library if it has ``cuCtxResetPersistingL2Cache`` (CUDA 11.0), or None."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        library.cuCtxResetPersistingL2Cache.restype = ctypes.c_int
    except (OSError, AttributeError):
        return None
    return library


def max_sm_clock(device: torch.device) -> float | None:
    """The highest SM clock in MHz: from NVML if its bindings are there, else from nvidia-smi, else from the CUDA runtime."""
    index = device.index if device.index is not None else torch.cuda.current_device()
    uuid = f"GPU-{torch.cuda.get_device_properties(index).uuid}"
    for ask in (_nvml_max_clock, _smi_max_clock):
        clock = ask(uuid)
        if clock:
            return clock
    rate = getattr(torch.cuda.get_device_properties(index), "clock_rate", 0)
    return rate / 1000 if rate else None


def _nvml_max_clock(uuid: str) -> float | None:
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # noqa: BLE001 - no bindings, no library or no permission: other ways remain
        return None
    try:
        return float(nvml.nvmlDeviceGetMaxClockInfo(nvml.nvmlDeviceGetHandleByUUID(uuid), nvml.NVML_CLOCK_SM))
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _smi_max_clock(uuid: str) -> float | None:
    if shutil.which("nvidia-smi") is None:
        return None
    query = ["nvidia-smi", f"--id={uuid}", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
    first = answer.stdout.strip().partition("\n")[0]
    return float(first) if answer.returncode == 0 and first.replace(".", "", 1).isdigit() else None
