"""Test inputs: random values and their memory layouts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import torch

from warpwise.arguments.layout import in_format


def _in_memory_order(arrange: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """``arrange`` applied to the dimensions in the order of their strides, so that a transposed view stays so."""

    @functools.wraps(arrange)
    def arranged(values: torch.Tensor) -> torch.Tensor:
        if values.is_contiguous():
            return arrange(values)
        order = sorted(range(values.dim()), key=values.stride, reverse=True)
        return arrange(values.permute(order)).permute([order.index(dim) for dim in range(values.dim())])

    return arranged


def _between(dtype: torch.dtype) -> float | int:
    """The value of memory that belongs to no element, so that a kernel that uses it is wrong: NaN or a large integer.

    This NaN differs from the one of outputs that are not yet written.
    """
    if dtype.is_floating_point or dtype.is_complex:
        return math.nan
    return True if dtype == torch.bool else int.from_bytes(b"\x5a" * dtype.itemsize, "little")


@_in_memory_order
def strided(values: torch.Tensor) -> torch.Tensor:
    """The same values with gaps in every row, which hold NaN or a large integer."""
    if not values.dim():
        return values
    wide = values.new_full((*values.shape[:-1], 2 * values.shape[-1] + 1), _between(values.dtype))
    return wide[..., 1::2].copy_(values)


@_in_memory_order
def unaligned(values: torch.Tensor) -> torch.Tensor:
    """The same values, starting one element past an aligned address; NaN or a large integer precedes them."""
    shifted = values.new_full((values.numel() + 1,), _between(values.dtype))
    return shifted[1:].view(values.shape).copy_(values)


def transposed(values: torch.Tensor) -> torch.Tensor:
    """The same values with the last two dimensions swapped in memory."""
    return values.mT.contiguous().mT if values.dim() > 1 else values


def channels_last(values: torch.Tensor) -> torch.Tensor:
    """The same values of a 4-D tensor in NHWC order."""
    return in_format(values, torch.channels_last) if values.dim() == 4 else values


LAYOUTS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = MappingProxyType(
    {
        "contiguous": lambda values: values, "strided": strided, "unaligned": unaligned, "transposed": transposed,
        "channels_last": channels_last,
    }
)  # fmt: skip

VALUES = ("normal", "huge")


def check_values(owner: str, values: str) -> None:
    """Raise ``ValueError`` that begins with ``owner`` unless ``values`` is "normal" or "huge"."""
    if values not in VALUES:
        raise ValueError(f"{owner}: expected values to be {' or '.join(map(repr, VALUES))}, got {values!r}")


def draw(
    shape: Sequence[int], dtype: torch.dtype, device: torch.device, seed: int, values: str = "normal", power: int = 1
) -> torch.Tensor:
    """Random values of ``shape`` from ``seed``.

    Floating point: standard normal; "huge" ``values`` are scaled so that their ``power``-th power stays finite.
    Integers: uniform over the dtype's range; "huge" integers are the largest or one less. A meta tensor has no values.

    Raises ``ValueError`` for other ``values``.
    """
    check_values("draw", values)
    if device.type == "meta":
        return torch.empty(tuple(shape), dtype=dtype, device=device)
    generator = torch.Generator(device).manual_seed(seed)
    if dtype.is_floating_point:
        drawn = torch.randn(tuple(shape), generator=generator, dtype=dtype, device=device)
        return drawn.mul_(math.pow(torch.finfo(dtype).max / 64, 1 / power)) if values == "huge" else drawn
    if dtype == torch.bool:
        return torch.randint(0, 2, tuple(shape), generator=generator, device=device).bool()
    top = torch.iinfo(dtype).max
    low = top - 1 if values == "huge" else torch.iinfo(dtype).min
    end = top + (dtype != torch.int64)  # the largest int64 is never drawn: randint takes an exclusive end
    return torch.randint(low, end, tuple(shape), generator=generator, dtype=dtype, device=device)
