"""Named ranges: under which name a profiler shows a piece of work. Where none is on, a range costs one look.

``torch.profiler`` gets them as ``record_function`` events on any device, Nsight Systems and Nsight Compute as NVTX ranges.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

# The NVTX library loads a tool's side of itself from here; Nsight tools set it in the process that they watch.
INJECTIONS = ("NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH")
ASKED = "WARPWISE_NVTX"

_nvtx = os.environ.get(ASKED, "") not in ("", "0") or any(name in os.environ for name in INJECTIONS)


def profiling_active() -> bool:
    """Whether anybody records ranges: torch's profiler in this thread, or a tool that listens to NVTX.

    NVTX ranges are made in a process that an Nsight tool started, or with ``WARPWISE_NVTX=1`` in the environment.
    """
    return _nvtx or torch.autograd._profiler_enabled()


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """What runs inside is shown as ``name``, to torch's profiler and, where there is a GPU, as an NVTX range."""
    nvtx = _nvtx and torch.cuda.is_available()
    if nvtx:
        torch.cuda.nvtx.range_push(name)
    try:
        with torch.profiler.record_function(name):
            yield
    finally:
        if nvtx:
            torch.cuda.nvtx.range_pop()
