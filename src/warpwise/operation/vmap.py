"""How ``torch.func.vmap`` computes an operation.

PyTorch's operators compute all values at once, a rung one value in a launch. PyTorch therefore computes a call with
batched tensors if it names no rung. The library operator, which other calls reach, is called for each value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor

from warpwise.arguments.values import as_tuple, single

Dims = int | None | Sequence[int | None]


def is_batched(tensor: torch.Tensor) -> bool:
    """True for a tensor of ``vmap``, also inside ``torch.func.grad``."""
    while is_functorch_wrapped_tensor(tensor):
        if is_batchedtensor(tensor):
            return True
        tensor = get_unwrapped(tensor)
    return False


def rule(library: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """A rule for ``torch.library.register_vmap``. ``library(*args, **named)`` calls the operator for one value.

    PyTorch would do the same without a rule, with a warning that asks for an issue in PyTorch.
    """

    def batched(info: Any, in_dims: Sequence[Dims], *args: Any, **named: Any) -> tuple[Any, Any]:
        values = [as_tuple(library(*_value(args, in_dims, index), **named)) for index in range(info.batch_size)]
        return single([torch.stack(parts) for parts in zip(*values, strict=True)]), single([0] * len(values[0]))

    return batched


def _value(args: Sequence[Any], dims: Sequence[Dims], index: int) -> tuple[Any, ...]:
    """The arguments of one value: slices of the tensors with a batch dimension."""
    return tuple(
        _value(arg, dim, index) if isinstance(dim, Sequence) else arg if dim is None else arg.select(dim, index)
        for arg, dim in zip(args, dims, strict=True)
    )
