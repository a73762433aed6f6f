"""NVIDIA's bindings of the CUDA driver, and the fast paths of torch to the current stream and device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from warpwise.cuda.errors import LaunchError

INVALID_CONTEXT = 201  # CUresult: this thread has no current context


def driver() -> Any:
    """NVIDIA's bindings of the CUDA driver. Raises ``ImportError`` that names the package to install."""
    try:
        from cuda.bindings import driver as bindings
    except ImportError as error:
        raise ImportError(f"launching on a GPU needs cuda-bindings ({error}): pip install 'warpwise[cuda]'") from error
    return bindings


def make_context_current(index: int) -> None:
    """Make the primary context of a device, which torch uses too, current in this thread.

    A thread that has not used the device, such as one of autograd's, has no context.
    """
    bindings = driver()
    _, device = bindings.cuDeviceGet(index)
    code, context = bindings.cuDevicePrimaryCtxRetain(device)
    if code or (code := bindings.cuCtxSetCurrent(context)[0]):
        raise LaunchError(f"the driver reports error {int(code)} for the primary context of CUDA device {index}")


def current_stream_function() -> Callable[[int], int]:
    """A function that returns the address of torch's current stream on a device.

    The public ``torch.cuda.current_stream`` makes a Stream object and takes ten times as long.
    """
    fast: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return fast or (lambda index: torch.cuda.current_stream(index).cuda_stream)


def current_device_function() -> Callable[[], int]:
    """A function that returns the index of this thread's current device. CUDA must be initialised in the process."""
    fast: Callable[[], int] | None = getattr(torch._C, "_cuda_getDevice", None)
    return fast or torch.cuda.current_device
