"""PyTorch's matrix multiplications with or without TF32, independent of the setting in ``torch.backends.cuda.matmul``.

TF32 rounds float32 operands to 10 bits of mantissa and is seven times faster on an H200. It is therefore a separate
operation with its own tolerance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from warpwise import fastcall
from warpwise.device.precision import Precision, in_precision, tf32_is_allowed

Result = TypeVar("Result")


def tf32_is_off() -> bool:
    """True unless PyTorch's float32 matrix multiplications use TF32."""
    return not tf32_is_allowed("matmul")


def without_tf32(product: Callable[..., Result], a: torch.Tensor, *rest: Any) -> Result:
    """``product(a, *rest)`` without TF32. Under torch.compile the user's setting stays."""
    return _in_precision("ieee", product, a, *rest)


def planned_product(
    product: Callable[..., Result],
    like: torch.Tensor,
    aten: str | Callable[[Any], Callable[..., Result]] | None = None,
    precision: Precision = "ieee",
) -> Callable[..., Result]:
    """``product`` without TF32, or with "tf32", for arguments with the dtype and device of ``like``, with the least
    host time.

    ``aten`` is the operator of ATen that computes the same in C++, one of those of ``fastcall``'s Aten, or a function
    that makes its call from the library.
    """
    library = fastcall.library()
    fastest = product
    if library is not None and aten is not None:
        fastest = library.Aten(aten, product) if isinstance(aten, str) else aten(library)
    if like.dtype is not torch.float32 or not like.is_cuda:
        return fastest
    if library is not None:
        return library.InPrecision(fastest, precision == "tf32")
    return functools.partial(_in_precision, precision, product)


def _in_precision(precision: Precision, product: Callable[..., Result], a: torch.Tensor, *rest: Any) -> Result:
    return in_precision("matmul", precision, product, a, a, *rest)
