"""Checks of arguments. Each raises a ``TypeError`` or ``ValueError`` that names the operation and the argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def check_tensor(op: str, name: str, value: Any, dtypes: Sequence[torch.dtype] = (), dims: Sequence[int] = ()) -> None:
    """Raise unless ``value`` is a dense tensor of one of ``dtypes`` whose number of dimensions is one of ``dims``.

    Empty ``dtypes`` or ``dims`` allow all. Raises ``TypeError`` for another kind or dtype, and ``ValueError`` for
    another number of dimensions, with ``op`` and the argument's ``name``.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{op}: expected {name} to be a torch.Tensor, got {type(value).__name__}")
    if value.layout is not torch.strided:
        raise TypeError(f"{op}: expected {name} to be dense, got {value.layout}; call .to_dense() first")
    if value.is_nested:
        raise TypeError(f"{op}: expected {name} to be dense, got a nested tensor; call .to_padded_tensor(0.0) first")
    if dtypes and value.dtype not in dtypes:
        expected = ", ".join(str(dtype) for dtype in dtypes)
        same_kind = len(dtypes) == 1 and value.is_floating_point() == dtypes[0].is_floating_point
        remedy = f"; convert it: {name}.to({expected})" if same_kind else ""
        raise TypeError(f"{op}: expected {name} of dtype {expected}, got {value.dtype}{remedy}")
    if dims and value.dim() not in dims:
        expected = " or ".join(map(str, dims)) if len(dims) < 4 else f"{dims[0]} to {dims[-1]}"
        unit = "dimension" if expected == "1" else "dimensions"
        raise ValueError(f"{op}: expected {name} with {expected} {unit}, got shape {tuple(value.shape)}")


def check_same(op: str, names: Sequence[str], first: torch.Tensor, tensor: torch.Tensor) -> None:
    """Raise unless ``tensor``, the second of ``names``, has the dtype and the device of ``first``, the first of them.

    Raises ``TypeError`` for another dtype and ``ValueError`` for another device, with ``op`` and both ``names``.
    """
    if tensor.dtype != first.dtype:
        raise TypeError(
            f"{op}: expected {names[1]} of {names[0]}'s dtype {first.dtype}, got {tensor.dtype}; "
            f"convert one of them: {names[1]}.to({first.dtype})"
        )
    if tensor.device != first.device:
        raise ValueError(
            f"{op}: expected {names[1]} on {names[0]}'s device {first.device}, got {tensor.device}; "
            f"move one of them: {names[1]}.to({str(first.device)!r})"
        )


def check_same_shape(op: str, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
    """Raise unless all ``tensors``, which are called ``names``, have the first one's dtype, device and shape.

    Raises ``TypeError`` for another dtype, and ``ValueError`` for another device or shape, with ``op`` and the names.
    """
    first = tensors[0]
    for name, tensor in zip(names[1:], tensors[1:], strict=True):
        check_same(op, (names[0], name), first, tensor)
        if tensor.shape != first.shape:
            expected, got = tuple(first.shape), tuple(tensor.shape)
            raise ValueError(f"{op}: expected {name} of {names[0]}'s shape {expected}, got {got}")


def check_shapes(
    op: str,
    name: str,
    like: torch.Tensor,
    wanted: Mapping[str, tuple[torch.Tensor | None, Sequence[int]]],
) -> None:
    """Raise unless each tensor in ``wanted``, by the argument's name, has its shape and the dtype and device of
    ``like``, which is called ``name``. None, an argument that is not given, passes.

    Raises ``TypeError`` for another kind or dtype, and ``ValueError`` for another device or shape.
    """
    for own, (tensor, shape) in wanted.items():
        if tensor is None:
            continue
        check_tensor(op, own, tensor)
        check_same(op, (name, own), like, tensor)
        if tuple(tensor.shape) != tuple(shape):
            raise ValueError(f"{op}: expected {own} {tuple(shape)}, got {tuple(tensor.shape)}")


def check_dim(op: str, tensor: torch.Tensor, dim: Any) -> None:
    """Raise unless ``dim`` is a dimension of ``tensor``; a 0-D tensor has 0 and -1, as in PyTorch.

    Raises ``TypeError`` if ``dim`` is no int, and ``ValueError`` if it is out of range, with ``op``.
    """
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise TypeError(f"{op}: expected dim to be an int, got {type(dim).__name__}")
    count = max(tensor.dim(), 1)
    if not -count <= dim < count:
        raise ValueError(f"{op}: expected dim between {-count} and {count - 1}, got {dim}")
