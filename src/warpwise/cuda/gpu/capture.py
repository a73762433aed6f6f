"""What the capture of a CUDA graph needs beside PyTorch's own functions."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage collection meanwhile, in any thread.

    Objects of autograd are often parts of reference cycles, so that collection frees the last reference to an earlier
    graph. cudaGraphExecDestroy is not permitted during a capture and invalidates it; PyTorch only warns.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
