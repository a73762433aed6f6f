"""Nested sequences of tensors, scalars and None: arguments and results; their autocast and forward mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import is_autocast_enabled
from torch.autograd import forward_ad

from warpwise.arguments.schema import Schema

LOW_PRECISION = (torch.float16, torch.bfloat16, torch.float32)  # the dtypes that autocast converts
_PLAIN = torch.empty(0)


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors in ``values``, a tensor, None, a scalar or a nested sequence of these, in order."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors(value)


def first_tensor(args: Sequence[Any]) -> torch.Tensor:
    """The first tensor of ``args``. Raises ``TypeError`` if there is none."""
    for tensor in tensors(args):
        return tensor
    raise TypeError("expected a tensor among the arguments, got none")


def map_tensors(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """``value`` with ``function`` applied to each tensor in it."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        made = [map_tensors(function, one) for one in value]
        return made if isinstance(value, list) else tuple(made)
    return value


def is_marked(tensor: torch.Tensor) -> bool:
    """True for a view that is only marked as negated or conjugated: its memory holds other values."""
    return tensor.is_neg() or tensor.is_conj()


def argument_for(tensor: torch.Tensor, strided: bool) -> torch.Tensor:
    """``tensor`` as a rung reads it: its values in memory, and contiguous unless the rung is ``strided``.

    A view that is only marked as negated or conjugated is copied.
    """
    tensor = tensor.resolve_conj().resolve_neg()
    return tensor if strided else tensor.contiguous()


def output_for(output: Any, strided: bool) -> Any:
    """``output``, or contiguous memory in its place for a rung that is not ``strided``."""
    plain = strided or not isinstance(output, torch.Tensor) or output.is_contiguous()
    return output if plain else torch.empty_like(output, memory_format=torch.contiguous_format)


def copy_back(targets: Any, values: Any) -> None:
    """Copy each tensor of ``values`` to the tensor at the same position of ``targets``, unless they are one tensor."""
    for target, value in zip(tensors(targets), tensors(values), strict=True):
        if target is not value:
            target.copy_(value)


def as_tuple(results: Any) -> tuple[Any, ...]:
    """The results of an operation as a tuple: none, one or several."""
    return () if results is None else tuple(results) if isinstance(results, (list, tuple)) else (results,)


def single(results: Sequence[Any]) -> torch.Tensor | tuple[torch.Tensor | None, ...] | None:
    """Results as a Python function returns them: a single value, a tuple of several, or None."""
    return results[0] if len(results) == 1 else tuple(results) if results else None


def without_autocast(run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """``run(*args)`` with autocast off, so that PyTorch's operators return the dtypes that the fake kernel states."""
    kind = next((value.device.type for value in tensors(args)), "cpu")
    if kind not in ("cpu", "cuda") or not is_autocast_enabled(kind):
        return run(*args)
    with torch.autocast(kind, enabled=False):
        return run(*args)


def autocast_arguments(args: tuple[Any, ...], rule: str) -> tuple[Any, ...]:
    """``args`` converted as torch.autocast does; float64 and other than floating-point tensors are not converted."""
    kind = next((value.device.type for value in tensors(args)), "cpu")
    if kind not in ("cpu", "cuda") or not is_autocast_enabled(kind):
        return args
    dtype = torch.get_autocast_dtype(kind) if rule == "low_precision" else torch.float32
    return map_tensors(lambda value: value.to(dtype) if value.dtype in LOW_PRECISION else value, args)


def in_forward_mode() -> bool:
    """True within a level of forward-mode differentiation, in which unpacking a tensor returns a new object."""
    return forward_ad.unpack_dual(_PLAIN)[0] is not _PLAIN


if isinstance(_levels := vars(forward_ad), dict) and isinstance(_levels.get("_current_level"), int):

    def in_forward_mode() -> bool:
        return _levels["_current_level"] >= 0


def has_tangent(args: Sequence[Any]) -> bool:
    """True if a tensor of ``args`` carries a forward-mode tangent."""
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors(args))


def counting(plan: Callable[..., Any], schema: Schema) -> Callable[..., Any]:
    """``plan`` followed by ``count_changes``."""

    def counted(*args: Any) -> Any:
        result = plan(*args)
        count_changes(args, schema)
        return result

    return counted


def count_changes(args: Sequence[Any], schema: Schema) -> None:
    """Increment the version counters of the mutated arguments, so that autograd detects the change."""
    for name in schema.mutated:
        for tensor in tensors(args[schema.index(name)]):
            torch.autograd.graph.increment_version(tensor)
