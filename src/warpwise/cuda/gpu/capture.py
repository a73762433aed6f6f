"""Support for the capture of CUDA graphs, in addition to PyTorch's functions."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable garbage collection in all threads within the context.

    Autograd's objects are often parts of reference cycles, so a collection may free the last reference to an earlier
    graph. cudaGraphExecDestroy is not permitted during a capture and invalidates it; PyTorch only warns.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
