"""Named ranges, which profilers show as the name of a piece of work. Without an active profiler they are skipped.

They are ``record_function`` events for ``torch.profiler`` and NVTX ranges for Nsight Systems and Nsight Compute.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

# The NVTX library loads a tool's implementation from here; Nsight tools set it in the profiled process.
INJECTIONS = ("NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH")
ASKED = "WARPWISE_NVTX"

_profiler_enabled = torch.autograd._profiler_enabled
NVTX = os.environ.get(ASKED, "") not in ("", "0") or any(name in os.environ for name in INJECTIONS)


def profiling_active() -> bool:
    """True if ranges are recorded: torch's profiler is active in this thread, or NVTX ranges are enabled.

    NVTX ranges are enabled in a process that an Nsight tool started, and by ``WARPWISE_NVTX=1`` in the environment.
    """
    return NVTX or _profiler_enabled()


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Name the enclosed work ``name`` for torch's profiler and, on a machine with a GPU, as an NVTX range."""
    nvtx = NVTX and torch.cuda.is_available()
    if nvtx:
        torch.cuda.nvtx.range_push(name)
    try:
        with torch.profiler.record_function(name):
            yield
    finally:
        if nvtx:
            torch.cuda.nvtx.range_pop()
