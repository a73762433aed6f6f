"""PyTorch's convolutions with or without TF32, independent of ``torch.backends.cudnn``, which allows it by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from warpwise import fastcall
from warpwise.device import precision

Result = TypeVar("Result")


def without_tf32(function: Callable[..., Result], like: torch.Tensor, *args: Any) -> Result:
    """``function(*args)``, a convolution of tensors on the device and of the dtype of ``like``, without TF32.

    Under torch.compile the user's setting stays.
    """
    return in_precision(False, function, like, *args)


def in_precision(tf32: bool, function: Callable[..., Result], like: torch.Tensor, *args: Any) -> Result:
    """``function(*args)`` with or without TF32, as ``without_tf32``."""
    return precision.in_precision("conv", "tf32" if tf32 else "ieee", function, like, *args)


def planned(
    otherwise: Callable[..., Any], like: torch.Tensor, settings: Any, tf32: bool, nhwc: bool, needs: Any = None
) -> Callable[..., Any]:
    """``otherwise``, conv2d or, with ``needs``, its backward, for one key of calls, with the least host time.

    ``settings``: stride, padding, dilation and groups; ``nhwc``: the layout of the results.
    """
    library = fastcall.library()
    if library is None:
        return otherwise
    rounds = like.is_cuda and like.dtype == torch.float32
    return library.Convolution(*settings, needs, nhwc, tf32 if rounds else None, otherwise)
