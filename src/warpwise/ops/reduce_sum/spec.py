"""The specification of reduce_sum: the sum of all elements, or along one dimension."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Gradient, Output, Saved, Spec, check_dim, check_tensor, draw
from warpwise.ops._dims import length_along

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check(input: torch.Tensor, dim: int | None) -> None:
    check_tensor("reduce_sum", "input", input, FLOATS)
    if dim is not None:
        check_dim("reduce_sum", input, dim)


# The sum of more values of random sign than this is smaller than the tolerance of the sum.
_CANCELS = 2**20


def _adding_up(values: torch.Tensor, seed: int) -> torch.Tensor:
    """``values`` made positive, with a mean that depends on the seed and a sum within the range of the dtype."""
    mean = 0.5 + torch.rand((), generator=torch.Generator().manual_seed(seed)).item() / 2
    return values.abs_().mul_(mean * min(1.0, torch.finfo(values.dtype).max / 4 / values.numel()))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """(n,) and no dim, or (rows, columns) and the last one, or (rows, columns, inner) and the middle one.

    The attribute ``dim`` gives another dimension.
    """
    if "n" in case.sizes:
        values = draw((case.sizes["n"],), dtype, device, seed, case.values)
        return {"input": _adding_up(values, seed) if values.numel() > _CANCELS else values, "dim": None}
    shape = [case.sizes[name] for name in ("rows", "columns", "inner") if name in case.sizes]
    dim = case.attributes.get("dim", 1 if len(shape) == 3 else -1)
    return {"input": draw(shape, dtype, device, seed, case.values), "dim": dim}


def output_shape(input: torch.Tensor, dim: int | None) -> list[int]:
    if dim is None or input.dim() == 0:
        return []
    shape = list(input.shape)
    del shape[dim]
    return shape


def reference(input: torch.Tensor, dim: int | None) -> torch.Tensor:
    return torch.sum(input, dim, dtype=torch.float64)


def magnitude(input: torch.Tensor, dim: int | None) -> torch.Tensor:
    return torch.sum(input.abs(), dim, dtype=torch.float64)


def eager(input: torch.Tensor, dim: int | None) -> torch.Tensor:
    return torch.sum(input) if dim is None else torch.sum(input, dim)


def terms(input: torch.Tensor, dim: int | None) -> int:
    return input.numel() if dim is None else length_along(input, dim)


def cost(input: torch.Tensor, dim: int | None) -> Cost:
    written = 1 if dim is None else input.numel() // max(length_along(input, dim), 1)
    return Cost(bytes=(input.numel() + written) * input.element_size(), flops=input.numel())


def backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    if saved.dim is not None and saved.shape_input:
        grad = grad.unsqueeze(saved.dim)
    return {"input": grad.expand(saved.shape_input)}


SPEC = Spec(
    schema="reduce_sum(Tensor input, int? dim=None) -> Tensor",
    summary="the sum of all elements, or along one dimension, accumulated in float32",
    inputs=inputs,
    check=check,
    outputs={"output": Output(shape=output_shape, terms=terms, magnitude=magnitude)},
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("block", {"n": 2048}),
        Case("ragged", {"n": 10007}),
        Case("below_a_vector", {"n": 3}),
        Case("one_element", {"n": 1}),
        Case("empty", {"n": 0}),
        Case("rows", {"rows": 5, "columns": 1024}),
        Case("ragged_rows", {"rows": 7, "columns": 777}),
        Case("long_rows", {"rows": 2, "columns": 9001}),
        Case("short_rows", {"rows": 300, "columns": 5}),
        Case("rows_of_a_vector", {"rows": 130, "columns": 4}),
        Case("rows_of_vectors", {"rows": 37, "columns": 136}),
        Case("columns", {"rows": 70, "columns": 40}, {"dim": 0}),
        Case("few_columns", {"rows": 50001, "columns": 3}, {"dim": 0}),
        Case("columns_of_one", {"rows": 1, "columns": 150}, {"dim": 0}),
        Case("narrow_columns", {"rows": 4284, "columns": 5}, {"dim": 0}),
        Case("several_parts", {"rows": 2, "columns": 70001}),
        Case("empty_rows", {"rows": 6, "columns": 0}),
        Case("middle_dimension", {"rows": 3, "columns": 50, "inner": 4}),
        Case("planes", {"rows": 5, "columns": 3, "inner": 264}),
        Case("huge", {"rows": 8, "columns": 100}, values="huge"),
        Case("strided", {"rows": 4, "columns": 133}, layout="strided"),
        Case("unaligned", {"n": 4099}, layout="unaligned"),
    ),
    sizes=(
        Case("square", {"n": 2**28}),
        Case("ragged", {"n": 2**26 - 1}),
        Case("rows", {"rows": 16384, "columns": 8192}),
        Case("short_rows", {"rows": 2**20, "columns": 128}),
    ),
    dtypes=KERNEL_DTYPES,
    autocast="float32",
    gradient=Gradient(backward, saves=("shape_input", "dim")),
)
