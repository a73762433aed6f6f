"""``warpwise check --reference``: import the reference, call it, and describe the outputs that differ from it."""

from __future__ import annotations

import importlib
import keyword
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click
import torch

from warpwise.cli.kernel_files import KernelLaunch
from warpwise.cli.values import Value

TOLERANCE_EPS = 32  # of the output's dtype, relative to the element and to the largest element of the reference
ONE_ROUNDING_EPS = 2  # a sum accumulated in float32 and rounded once has an error of half an eps
_SIXTEEN_BITS = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Difference:
    """An output that is wrong: a line that says so, and the first wrong element by its place in memory order."""

    text: str
    output: Value
    place: int | None = None


def load_reference(path: str) -> Callable[..., Any]:
    """Import MODULE:FUNCTION; modules of the working directory are found too."""
    module, colon, function = path.partition(":")
    if not colon:
        raise click.BadParameter(
            f"{path!r}: expected MODULE:FUNCTION, such as reference:row_sum", param_hint="--reference"
        )
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise click.BadParameter(f"{path!r}: {error}", param_hint="--reference") from error
    finally:
        sys.path.pop(0)


def expected(reference: Callable[..., Any], launch: KernelLaunch) -> Any:
    """The result of the reference for copies of the arguments, passed by name: ``in`` as ``in_``."""
    values = {value.name: value.value for value in launch.values} | launch.meta
    given = {f"{name}_" if keyword.iskeyword(name) else name: value for name, value in values.items()}
    try:
        return reference(**{name: _copy(value) for name, value in given.items()})
    except Exception as error:
        names = ", ".join(given)
        raise click.UsageError(
            f"the reference, called with {names} by name, raised {type(error).__name__}: {error}"
        ) from error


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def compared(values: Sequence[Value], wanted: Any) -> tuple[list[Difference], list[str]]:
    """The outputs that differ from the reference, and notes about the accuracy of the others. NaN equals NaN only."""
    outputs = [value for value in values if value.returned]
    if not outputs:
        raise click.UsageError(
            "--reference needs an output to compare: mark one with --arg NAME=out:DTYPE[SHAPE], or with inout: if the "
            "kernel adds to it"
        )
    differences, notes = [], []
    for value, part in zip(outputs, _parts(outputs, wanted), strict=True):
        difference, note = _compared_one(value, torch.as_tensor(part))
        differences += [difference] if difference else []
        notes += [note] if note else []
    return differences, notes


def _parts(outputs: Sequence[Value], wanted: Any) -> list[Any]:
    names = ", ".join(value.name for value in outputs)
    if wanted is None:
        raise click.UsageError(f"the reference returned None; it must return the expected {names}")
    if isinstance(wanted, dict):
        if missing := [value.name for value in outputs if value.name not in wanted]:
            raise click.UsageError(f"the reference returned a dict without {', '.join(missing)}")
        return [wanted[value.name] for value in outputs]
    parts = [wanted] if len(outputs) == 1 else list(wanted)
    if len(parts) != len(outputs):
        raise click.UsageError(f"the reference returned {len(parts)} values for {len(outputs)} outputs ({names})")
    return parts


def _compared_one(value: Value, part: torch.Tensor) -> tuple[Difference | None, str]:
    got = value.value
    assert isinstance(got, torch.Tensor)
    if part.shape != got.shape:
        text = f"{value.name}: the reference has shape {tuple(part.shape)}, the output {tuple(got.shape)}"
        return Difference(text, value), ""
    dtype = got.dtype
    eps = torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
    got, part = got.to(torch.float64), part.to(torch.float64)
    largest = float(part.nan_to_num().abs().max()) if part.numel() else 0.0
    tolerance = TOLERANCE_EPS * eps
    bad = ~torch.isclose(got, part, rtol=tolerance, atol=tolerance * largest, equal_nan=True)
    if bad.any():
        index = tuple(int(axis[0]) for axis in torch.nonzero(bad, as_tuple=True))
        text = (
            f"{value.name}{list(index)} is {got[index].item():.9g}, expected {part[index].item():.9g}; "
            f"{int(bad.sum()):,} of {bad.numel():,} elements differ"
        )
        if _is_rearranged(got, part, tolerance, largest):
            text += "\n    all expected values are there, at other places: an index of a load or a store is wrong"
        return Difference(text, value, int(bad.flatten().nonzero()[0])), ""
    finite = (got - part).nan_to_num(0.0, 0.0, 0.0).abs()
    error = float(finite.max()) / (eps * largest) if eps and largest else 0.0
    if dtype not in _SIXTEEN_BITS or error <= ONE_ROUNDING_EPS:
        return None, ""
    name = str(dtype).removeprefix("torch.")
    return None, (
        f"{value.name}: the largest error is {error:.1f} eps of {name} times the largest element; {TOLERANCE_EPS} are "
        f"allowed, and one rounding at the store causes 0.5. Is a sum accumulated in {name}? Accumulate in float32"
    )


def _is_rearranged(got: torch.Tensor, wanted: torch.Tensor, tolerance: float, largest: float) -> bool:
    """True if both hold the same values in another order. Few equal values would prove nothing."""
    ours, theirs = got.flatten().sort().values, wanted.flatten().sort().values
    if len(theirs.unique()) < max(2, len(theirs) // 2):
        return False
    return bool(torch.isclose(ours, theirs, rtol=tolerance, atol=tolerance * largest, equal_nan=True).all())


def last_write(launch: KernelLaunch, difference: Difference, timeout: float, order: str, seed: int) -> str:
    """The line and the thread of a CUDA kernel that wrote the wrong element, by a run of ``launch``; empty if none."""
    tensor = next(each.value for each in launch.values if each.name == difference.output.name)
    if difference.place is None or not isinstance(tensor, torch.Tensor) or not tensor.is_contiguous():
        return ""
    address = tensor.data_ptr() + difference.place * tensor.element_size()
    access = launch.launcher.last_write(*launch.args, address=address, timeout=timeout, order=order, seed=seed)
    return f"\n    last {access}" if access else ""
