"""Check the parts of an operation that verification does not execute, and that would fail only later."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from warpwise.lab.errors import ProblemError
from warpwise.operation import Case, Cost, Op, Rung, UnknownRung

SMALL = 8
OUTPUT_FUNCTIONS = ("shape", "dtype", "memory_format", "present", "terms", "magnitude")


def require_usable(op: Op, rungs: Sequence[Rung], dtype: torch.dtype, device: torch.device) -> None:
    """Raise ``ProblemError`` if a source of ``rungs`` does not exist, if a timing size lacks a dimension that the
    inputs need, if ``default`` names a rung that does not exist, if a function does not take the arguments, or if
    ``cost`` returns no ``Cost``.
    """
    _require_signatures(op)
    cost = op.spec.cost(*op.spec.arguments(op.spec.cases[0], dtype, device, 0))
    if not isinstance(cost, Cost):
        raise ProblemError(f"{op.name}: expected cost to return a Cost of bytes and FLOPs, got {type(cost).__name__}")
    for rung in rungs:
        if not Path(rung.source).exists():
            raise ProblemError(f"{op.name}: {rung.name}: its source {rung.source} does not exist")
    known = {_names(case) for case in op.spec.cases}
    for case in op.spec.sizes:
        if _names(case) not in known:
            _require_inputs(op, case, dtype, device)
    for case in op.spec.cases:
        _require_default(op, case, dtype, device)


def _require_signatures(op: Op) -> None:
    """Raise ``ProblemError`` for a function of the specification that does not take the arguments of the schema."""
    spec = op.spec
    functions: dict[str, Any] = {name: getattr(spec, name) for name in ("check", "reference", "eager", "cost")}
    functions["default"] = op.default
    for name, output in spec.outputs.items():
        functions |= {f"{field} of {name}": getattr(output, field) for field in OUTPUT_FUNCTIONS}
    names = [argument.name for argument in spec.parsed.arguments]
    for what, function in functions.items():
        if not callable(function):
            continue
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # a builtin function has none
            continue
        try:
            signature.bind(*names)
        except TypeError as error:
            wanted = ", ".join(names)
            raise ProblemError(
                f"{op.name}: {what} takes {signature}, expected the schema's ({wanted}): {error}"
            ) from error


def _names(case: Case) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(case.sizes), frozenset(case.attributes)


def _require_inputs(op: Op, case: Case, dtype: torch.dtype, device: torch.device) -> None:
    """Make the inputs of ``case`` at small sizes. These may be impossible, so only a missing name is an error."""
    small = replace(case, sizes={name: min(size, SMALL) for name, size in case.sizes.items()})
    try:
        op.spec.inputs(small, dtype, device, 0)
    except KeyError as error:
        raise ProblemError(f"{op.name}: the size {case} has no {error}, which the inputs need") from error
    except Exception:  # noqa: BLE001
        return


def _require_default(op: Op, case: Case, dtype: torch.dtype, device: torch.device) -> None:
    args, name = op.spec.arguments(case, dtype, device, 0), None
    with contextlib.suppress(Exception):  # it is written for CUDA tensors, and may ask for their GPU
        name = op.default(*args)
    if name is None:
        return
    try:
        op.rung(name)
    except UnknownRung as error:
        raise ProblemError(f"{op.name}: default returns {name!r} for {case}: {error}") from error
