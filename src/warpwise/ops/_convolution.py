"""PyTorch's convolutions without TF32, which ``torch.backends.cudnn`` allows by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def without_tf32(function: Callable[..., Result], like: torch.Tensor, *args: Any) -> Result:
    """``function(*args)``, a convolution of float32 tensors on the device of ``like``, without TF32.

    Under torch.compile the user's setting stays.
    """
    if not like.is_cuda or like.dtype != torch.float32 or torch.compiler.is_compiling():
        return function(*args)
    backends: Any = torch.backends
    settings = backends.cudnn.conv
    before = settings.fp32_precision
    if before == "ieee":
        return function(*args)
    settings.fp32_precision = "ieee"
    try:
        return function(*args)
    finally:
        settings.fp32_precision = "none"  # follows torch.backends.fp32_precision, if the value came from there
        if settings.fp32_precision != before:
            settings.fp32_precision = before
