"""The device functions that the GPU timer uses, through torch and the driver; tests replace the class by a fake."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, Protocol

import torch

from warpwise.device import describe

FLUSH = 2  # size of the flush buffer in L2 sizes


class Event(Protocol):
    """An event in the stream, like ``torch.cuda.Event`` with timing."""

    def record(self) -> None: ...
    def query(self) -> bool: ...
    def synchronize(self) -> None: ...
    def elapsed_time(self, end_event: Any) -> float: ...


class Gpu:
    """One CUDA device and its current stream."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.name = torch.cuda.get_device_name(device)
        described = describe(device)
        self.l2_bytes = described.l2_bytes or 0
        self.max_mhz = described.clock_hz / 1e6 if described.clock_hz else None
        self._scratch = torch.empty(max(1, FLUSH * self.l2_bytes), dtype=torch.int8, device=device)
        self._driver = _driver()

    @property
    def resets_persisting(self) -> bool:
        """True if persisting L2 lines can be reset."""
        return self._driver is not None

    def event(self) -> Event:
        return torch.cuda.Event(enable_timing=True)

    def spin(self, cycles: int) -> None:
        """Keep the stream busy for this many SM clock cycles."""
        torch.cuda._sleep(cycles)

    def flush(self) -> None:
        """Flush the L2 cache: write twice its size."""
        self._scratch.zero_()

    def reset_persisting(self) -> None:
        """Reset persisting L2 lines to normal, so that a flush evicts them."""
        if self._driver is not None:
            status = self._driver.cuCtxResetPersistingL2Cache()
            if status:
                raise RuntimeError(f"cuCtxResetPersistingL2Cache: the driver returned error {status}")

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.device)

    def graph(self, call: Any, repeats: int) -> Any:
        """A CUDA graph of ``repeats`` consecutive calls; ``call`` must be capturable."""
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
