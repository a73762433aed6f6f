"""PyTorch's setting of the precision of float32 matrix multiplications and convolutions on a GPU: IEEE or TF32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import torch

Result = TypeVar("Result")
Operation = Literal["matmul", "conv"]
Precision = Literal["ieee", "tf32"]

_backends: Any = torch.backends
_SETTINGS = {"matmul": _backends.cuda.matmul, "conv": _backends.cudnn.conv}


def _set_by_property(backend: str, operation: str, precision: str) -> None:
    _SETTINGS[operation].fp32_precision = precision


# Read and write the settings directly: the property of torch.backends.cuda.matmul compares names, which takes 2 µs.
_precision: Callable[[str, str], str] = getattr(torch._C, "_get_fp32_precision_getter", None) or (
    lambda backend, operation: _SETTINGS[operation].fp32_precision
)
_set_precision: Callable[[str, str, str], object] = (
    getattr(torch._C, "_set_fp32_precision_setter", None) or _set_by_property
)


def tf32_is_allowed(operation: Operation) -> bool:
    """True if PyTorch's float32 matrix multiplications, or its convolutions, use TF32."""
    return _precision("cuda", operation) == "tf32"


def in_precision(
    operation: Operation, precision: Precision, function: Callable[..., Result], like: torch.Tensor, *args: Any
) -> Result:
    """Return ``function(*args)``, computed with or without TF32. PyTorch's setting is restored afterwards.

    The setting does not change if it allows TF32 as ``precision`` says, if ``like`` is not a float32 tensor on a GPU,
    or under torch.compile.
    """
    if like.dtype is not torch.float32 or not like.is_cuda or torch.compiler.is_compiling():
        return function(*args)
    before = _precision("cuda", operation)
    if (before == "tf32") == (precision == "tf32"):
        return function(*args)
    _set_precision("cuda", operation, precision)
    try:
        return function(*args)
    finally:
        _set_precision("cuda", operation, "none")  # follows torch.backends.fp32_precision, if the value came from there
        if _precision("cuda", operation) != before:
            _set_precision("cuda", operation, before)
