"""Tables for products of matrices: what the choice depends on besides dtype and sizes, and the sizes worth measuring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from warpwise.ops._common import asked_about
from warpwise.registry import Case, Choice, Op
from warpwise.tuned import Device, Tables

# A decoder's widths: a model of 8 and of 70 billion parameters, with feed-forward layers of 3.5 times the width.
_WIDTHS = {
    "square": (4096, 4096),
    "up": (14336, 4096),
    "down": (4096, 14336),
    "wide": (8192, 8192),
    "wide_up": (28672, 8192),
}


def _case(name: str, m: int, n: int, k: int) -> Case:
    return Case(name, {"m": m, "n": n, "k": k})


SIZES = (
    *(
        _case(f"cube_{side}", side, side, side)
        for side in (128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384)
    ),
    *(_case(f"tokens_{m}_{name}", m, n, k) for name, (n, k) in _WIDTHS.items() for m in (1, 16, 64, 256, 2048)),
    *(_case(f"shallow_{side}", side, side, 512) for side in (1024, 2048, 4096, 8192)),
    *(_case(f"deep_{side}", side, side, 16384) for side in (128, 256, 512, 1024, 2048)),
    *(_case(f"tall_{n}", 16384, n, 4096) for n in (64, 256, 1024)),
    _case("vocabulary", 512, 128256, 4096),
    *(_case(f"ragged_{side}", side, side, side) for side in (255, 1023, 2047, 4095, 8191)),
    _case("ragged_oblong", 1000, 3000, 777),
    _case("ragged_half", 2047, 1023, 4095),
    _case("ragged_tokens", 33, 4097, 4095),
)


def described(a: torch.Tensor, b: torch.Tensor, *rest: object) -> tuple[str, dict[str, int]]:
    """The layouts, n for rows side by side and t for columns (a, then b), whether rows begin on 16 bytes, and the sizes.

    >>> described(a, b.t())   # both contiguous, of sizes that are multiples of 16 bytes
    ("nt", {"m": ..., "n": ..., "k": ...})
    """
    (m, k), n = a.shape, b.shape[1]
    (first, whole_a), (second, whole_b) = _laid(a), _laid(b)
    return first + second + ("" if whole_a and whole_b else " unaligned"), {"m": m, "n": n, "k": k}


def _laid(matrix: torch.Tensor) -> tuple[str, bool]:
    """One matrix's letter, and whether its lines begin on 16 bytes; one with gaps in both directions is copied first."""
    rows, columns = matrix.stride()
    if columns == 1 or matrix.is_contiguous():
        letter, step = "n", rows
    elif rows == 1:
        letter, step = "t", columns
    else:
        return "n", matrix.shape[1] * matrix.element_size() % 16 == 0
    return letter, step * matrix.element_size() % 16 == 0 and matrix.data_ptr() % 16 == 0


def _columns(matrix: torch.Tensor) -> torch.Tensor:
    """The same matrix, with its columns side by side in memory."""
    return matrix.t().contiguous().t()


ARRANGEMENTS: Mapping[str, Callable[..., tuple[Any, ...]]] = {
    "nn": lambda a, b, *rest: (a, b, *rest),
    "nt": lambda a, b, *rest: (a, _columns(b), *rest),
    "tn": lambda a, b, *rest: (_columns(a), b, *rest),
    "tt": lambda a, b, *rest: (_columns(a), _columns(b), *rest),
}


def tables(op: str, folder: Path) -> Tables:
    """The tables of an operation whose first two arguments are the factors a (M, K) and b (K, N); shipped ones are in ``folder/tuned``."""
    return Tables(op, folder / "tuned", described, ARRANGEMENTS, SIZES, {"float16": "bfloat16"})


def chosen(op: Op, *args: Any, device: Device | str | None = None) -> Choice:
    """What a call of ``op`` with these arguments runs; for ``device``, a GPU or its name, by that GPU's tables alone.

    Raises ``LookupError`` if there are none, or none has a point nearby.
    """
    op.spec.check(*args)
    if any(isinstance(value, torch.Tensor) and not value.numel() for value in args):
        return Choice(None, reason="an argument has no elements, and no kernel runs")
    if device is None:
        return op.choice(*args)
    if not isinstance(device, (Device, str)):
        raise TypeError(
            f"{op.name}: expected device to be a GPU's name, as 'NVIDIA H200', or a warpwise.tuned.Device, got {device!r}"
        )
    where, tables = Device(device) if isinstance(device, str) else device, op.chooser
    table = tables.table(where) if isinstance(tables, Tables) else None
    if table is None or not isinstance(tables, Tables):
        names = tables.devices() if isinstance(tables, Tables) else []
        others = f"; there is one for {', '.join(names)}" if names else ""
        raise LookupError(
            f"{op.name}: no table for {where.name}; `warpwise tune {op.name}` makes one on that GPU{others}"
        )
    with asked_about(where.multiprocessors or table.device.multiprocessors):
        known = tables.choice(op, *args, device=where)
    if known is not None:
        return known
    kind, sizes = tables.describe(*args)
    dtype = next(value.dtype for value in args if isinstance(value, torch.Tensor))
    if all(rung.dtypes is not None and dtype not in rung.dtypes for rung in op.rungs):
        return Choice(None, reason=f"no rung takes {str(dtype).removeprefix('torch.')}")
    asked = ", ".join(f"{name}={size}" for name, size in sizes.items())
    raise LookupError(
        f"{op.name}: {where.name}'s table has no point near {asked} for {str(dtype).removeprefix('torch.')} and {kind}: "
        f"there the ladder's own rule chooses; `warpwise tune {op.name}` on that GPU adds points"
    )


def asked(op: Op, function: Callable[..., Any]) -> Callable[..., Choice]:
    """``function.chosen``: what a call of ``function`` with the same arguments would run."""
    signature = inspect.signature(function)

    def of_call(*args: Any, device: Device | str | None = None, **named: Any) -> Choice:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        values = [value for name, value in bound.arguments.items() if name != "rung"]
        return chosen(op, *values, device=device)

    of_call.__doc__ = f"""What ``{op.name}`` runs for the same arguments, a rung with its tile or PyTorch, and why.

    ``device`` asks for another GPU by its tables alone. Nothing is computed. Raises as ``{op.name}`` does, and
    ``LookupError`` if these tables have no point near these arguments.
    """
    return of_call
