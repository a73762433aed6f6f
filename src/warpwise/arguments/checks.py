"""Checks of arguments. Each raises a ``TypeError`` or ``ValueError`` that names the operation and the argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_REAL = (Real, torch.SymInt, torch.SymFloat)


def check_tensor(op: str, name: str, value: Any, dtypes: Sequence[torch.dtype] = (), dims: Sequence[int] = ()) -> None:
    """Raise unless ``value`` is a dense tensor of one of ``dtypes`` whose number of dimensions is one of ``dims``.

    Empty ``dtypes`` or ``dims`` allow all. Raises ``TypeError`` for another kind or dtype, and ``ValueError`` for
    another number of dimensions, with ``op`` and the argument's ``name``.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{op}: expected {name} to be a torch.Tensor, got {type(value).__name__}")
    if value.is_nested:  # of layout torch.strided or torch.jagged
        raise TypeError(f"{op}: expected {name} to be dense, got a nested tensor; call .to_padded_tensor(0.0) first")
    if value.layout is not torch.strided:
        raise TypeError(f"{op}: expected {name} to be dense, got {value.layout}; call .to_dense() first")
    if dtypes and value.dtype not in dtypes:
        expected = ", ".join(str(dtype) for dtype in dtypes)
        same_kind = len(dtypes) == 1 and value.is_floating_point() == dtypes[0].is_floating_point
        remedy = f"; convert it: {name}.to({expected})" if same_kind else ""
        raise TypeError(f"{op}: expected {name} of dtype {expected}, got {value.dtype}{remedy}")
    if dims and value.dim() not in dims:
        expected = " or ".join(map(str, dims)) if len(dims) < 4 else f"{dims[0]} to {dims[-1]}"
        unit = "dimension" if expected == "1" else "dimensions"
        raise ValueError(f"{op}: expected {name} with {expected} {unit}, got shape {tuple(value.shape)}")


def real(op: str, name: str, value: Any) -> float:
    """``value`` as a float. Raises ``TypeError`` unless it is a real number; a tensor or a bool is not one."""
    if _is_real(value):
        return float(value)
    raise TypeError(f"{op}: expected {name} to be a real number, got {type(value).__name__}")


def check_real(op: str, name: str, value: Any) -> None:
    """``real`` without the conversion, which would fix the value of a symbolic number; integers have 64 bits."""
    if not _is_real(value):
        real(op, name, value)
    _check_bits(op, name, value)


def check_bool(op: str, name: str, value: Any) -> None:
    """Raise ``TypeError`` unless ``value`` is a bool, of Python or NumPy, or an integer."""
    if not isinstance(value, (int, torch.SymBool)) and type(value).__name__ not in ("bool", "bool_"):
        raise TypeError(f"{op}: expected {name} to be a bool, got {type(value).__name__}")


def check_integer(op: str, name: str, value: Any) -> None:
    """Raise ``TypeError`` unless ``value`` is an integer other than a bool, and ``ValueError`` beyond 64 bits."""
    if not _is_integer(value):
        raise TypeError(f"{op}: expected {name} to be an int, got {type(value).__name__}")
    _check_bits(op, name, value)


def check_integers(op: str, name: str, values: Any, count: int | None = None) -> None:
    """Raise ``TypeError`` unless ``values`` is a sequence of integers, and ``ValueError`` beyond 64 bits.

    The error says that there should be ``count``; the number of ``values`` is not checked.
    """
    _check_each(op, name, values, count, "integers", _is_integer)
    for value in values:
        _check_bits(op, name, value)


def check_reals(op: str, name: str, values: Any, count: int | None = None) -> None:
    """``check_integers`` for real numbers."""
    _check_each(op, name, values, count, "numbers", _is_real)


def _check_each(op: str, name: str, values: Any, count: int | None, what: str, fits: Callable[[Any], bool]) -> None:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence) or not all(map(fits, values)):
        expected = f"two {what}" if count == 2 else f"a sequence of {what}"
        raise TypeError(f"{op}: expected {name} to be {expected}, got {values!r}")


def _is_real(value: Any) -> bool:
    return type(value) is float or (isinstance(value, _REAL) and not isinstance(value, bool))


def _is_integer(value: Any) -> bool:
    return type(value) is int or (isinstance(value, (Integral, torch.SymInt)) and not isinstance(value, bool))


def _check_bits(op: str, name: str, value: Any) -> None:
    if type(value) is int and value.bit_length() > 63:
        raise ValueError(f"{op}: expected {name} of at most 64 bits, got {value}")


def listed(op: str, name: str, values: Any, what: str = "tensors") -> list[Any]:
    """``values`` as a list. Raises ``TypeError`` that expects a sequence of ``what`` if it cannot be iterated."""
    if isinstance(values, Iterable):
        return list(values)
    raise TypeError(f"{op}: expected {name} to be a sequence of {what}, got {type(values).__name__}")


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

    Raises ``TypeError`` for another kind or dtype, and ``ValueError`` for another device or shape, with ``op`` and the
    names.
    """
    first = tensors[0]
    check_tensor(op, names[0], first)
    for name, tensor in zip(names[1:], tensors[1:], strict=True):
        check_tensor(op, name, tensor)
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

    Raises ``TypeError`` if ``dim`` is not an int, and ``ValueError`` if it is out of range, with ``op``.
    """
    check_integer(op, "dim", dim)
    count = max(tensor.dim(), 1)
    if not -count <= dim < count:
        raise ValueError(f"{op}: expected dim between {-count} and {count - 1}, got {dim}")
