"""The NaNs, infinities and denormal numbers in the arguments of a launch, for ``warpwise check --nan``."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from warpwise.cli.values import Value


def special_values(values: Sequence[Value]) -> list[str]:
    """One line for each floating-point tensor with such elements: their numbers, and the index of the first."""
    lines = []
    for value in values:
        tensor = value.value
        if not isinstance(tensor, torch.Tensor) or not tensor.dtype.is_floating_point:
            continue
        wide = tensor.double()
        smallest = torch.finfo(tensor.dtype).smallest_normal
        kinds = {
            "NaN": wide.isnan(),
            "infinite": wide.isinf(),
            "denormal": (wide != 0) & (wide.abs() < smallest),
        }
        parts = []
        for kind, found in kinds.items():
            if count := int(found.sum()):
                index = ", ".join(str(int(axis[0])) for axis in torch.nonzero(found, as_tuple=True))
                parts.append(f"{count:,} {kind}, the first at [{index}]")
        if parts:
            lines.append(f"{value.name}: of {tensor.numel():,} elements {'; '.join(parts)}")
    return lines
