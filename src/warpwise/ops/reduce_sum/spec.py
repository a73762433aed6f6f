"""The sum of all elements, or along one dimension: what it is, knowing no kernel."""

from __future__ import annotations

import torch

from warpwise.ops._common import FLOATS, check_tensor, draw
from warpwise.ops._dims import check_dim, length_along
from warpwise.registry import Case, Cost, Spec

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check(input: torch.Tensor, dim: int | None) -> None:
    check_tensor("reduce_sum", "input", input, FLOATS)
    if dim is not None:
        check_dim("reduce_sum", input, dim)


# So many values of random sign add up to less than the rounding errors that their sum may have.
_CANCELS = 2**20


def _adding_up(values: torch.Tensor, seed: int) -> torch.Tensor:
    """``values`` made positive, with a mean that follows the seed and a sum that the dtype can hold."""
    mean = 0.5 + torch.rand((), generator=torch.Generator().manual_seed(seed)).item() / 2
    return values.abs_().mul_(mean * min(1.0, torch.finfo(values.dtype).max / 4 / values.numel()))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> tuple[torch.Tensor, int | None]:
    """(n,) and no dim, or (rows, columns) and the last one, or (rows, columns, inner) and the middle one."""
    if "n" in case.sizes:
        values = draw(case, (case.sizes["n"],), dtype, device, seed)
        return (_adding_up(values, seed) if values.numel() > _CANCELS else values), None
    shape = [case.sizes["rows"], case.sizes["columns"]]
    if "inner" not in case.sizes:
        return draw(case, shape, dtype, device, seed), -1
    return draw(case, [*shape, case.sizes["inner"]], dtype, device, seed), 1


def outputs(input: torch.Tensor, dim: int | None) -> torch.Tensor:
    if dim is None or input.dim() == 0:
        return input.new_empty(())
    shape = list(input.shape)
    del shape[dim]
    return input.new_empty(shape)


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


SPEC = Spec(
    name="reduce_sum",
    summary="the sum of all elements, or along one dimension, accumulated in float32",
    inputs=inputs,
    check=check,
    outputs=outputs,
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
        Case("empty_rows", {"rows": 6, "columns": 0}),
        Case("middle_dimension", {"rows": 3, "columns": 50, "inner": 4}),
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
    terms=terms,
    magnitude=magnitude,
)
