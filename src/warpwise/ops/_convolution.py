"""PyTorch's convolutions with or without TF32, whatever the setting in ``torch.backends.cudnn``, which allows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from warpwise import fastcall

Result = TypeVar("Result")
_backends: Any = torch.backends
_precision: Callable[[str, str], str] = getattr(torch._C, "_get_fp32_precision_getter", None) or (
    lambda *names: _backends.cudnn.conv.fp32_precision
)


def tf32_is_allowed() -> bool:
    """True if PyTorch's float32 convolutions use TF32."""
    return _precision("cuda", "conv") == "tf32"


def without_tf32(function: Callable[..., Result], like: torch.Tensor, *args: Any) -> Result:
    """``function(*args)``, a convolution of tensors on the device and of the dtype of ``like``, without TF32.

    Under torch.compile the user's setting stays.
    """
    return in_precision(False, function, like, *args)


def in_precision(tf32: bool, function: Callable[..., Result], like: torch.Tensor, *args: Any) -> Result:
    """``function(*args)`` with or without TF32, as ``without_tf32``."""
    if not like.is_cuda or like.dtype != torch.float32 or torch.compiler.is_compiling() or tf32_is_allowed() == tf32:
        return function(*args)
    settings = _backends.cudnn.conv
    before = settings.fp32_precision
    settings.fp32_precision = "tf32" if tf32 else "ieee"
    try:
        return function(*args)
    finally:
        settings.fp32_precision = "none"  # follows torch.backends.fp32_precision, if the value came from there
        if settings.fp32_precision != before:
            settings.fp32_precision = before


def planned(
    otherwise: Callable[..., Any], like: torch.Tensor, settings: Any, tf32: bool, nhwc: bool, needs: Any = None
) -> Callable[..., Any]:
    """``otherwise``, conv2d or, with ``needs``, its backward, for one key of calls, with the least host time.

    ``settings``: stride, padding, dilation and groups; ``nhwc``: the layout of the results.
    """
    library = fastcall.library()
    if library is None:
        return otherwise
    call = library.Convolution(*settings, needs, nhwc, otherwise)
    return library.InPrecision(call, tf32, True) if like.is_cuda and like.dtype == torch.float32 else call
