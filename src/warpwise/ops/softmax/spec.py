"""The specifications of softmax along one dimension and of its backward."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_dim, check_same_shape, check_tensor, draw
from warpwise.ops._dims import length_along

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check(input: torch.Tensor, dim: int) -> None:
    check_tensor("softmax", "input", input, FLOATS)
    check_dim("softmax", input, dim)


def check_backward(grad_output: torch.Tensor, output: torch.Tensor, dim: int) -> None:
    check_tensor("softmax_backward", "grad_output", grad_output, FLOATS)
    check_tensor("softmax_backward", "output", output, FLOATS)
    check_same_shape("softmax_backward", ("grad_output", "output"), (grad_output, output))
    check_dim("softmax_backward", output, dim)


def _shape(case: Case) -> tuple[list[int], int]:
    """(rows, columns) and the last dimension, or (rows, columns, inner) and the middle one, unless ``dim`` is given."""
    shape = [case.sizes[name] for name in ("rows", "columns", "inner") if name in case.sizes]
    return shape, case.attributes.get("dim", 1 if len(shape) == 3 else -1)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``input``; with the attribute ``masked``, half of each row but not its first element is -inf."""
    shape, dim = _shape(case)
    values = draw(shape, dtype, device, seed, case.values)
    if case.attributes.get("masked"):
        generator = torch.Generator(device).manual_seed(seed + 1)
        masked = torch.rand(values.shape, generator=generator, device=device) < 0.5
        masked[:, 0] = False
        values.masked_fill_(masked, -torch.inf)
    return {"input": values, "dim": dim}


def inputs_backward(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``grad_output``, and ``output``, the softmax of normal values."""
    shape, dim = _shape(case)
    gradient = draw(shape, dtype, device, 2 * seed, case.values)
    logits = draw(shape, dtype, device, 2 * seed + 1)
    return {"grad_output": gradient, "output": torch.softmax(logits.double(), dim).to(dtype), "dim": dim}


def reference(input: torch.Tensor, dim: int) -> torch.Tensor:
    x = input.double()
    powers = torch.exp(x - x.amax(dim, keepdim=True)) if x.numel() else x
    return powers / powers.sum(dim, keepdim=True)


def magnitude(input: torch.Tensor, dim: int) -> torch.Tensor:
    """y * (1 + max - x): rounding max - x to float32 changes e^(x - max) by (max - x) ulp."""
    x = input.double()
    below = x.amax(dim, keepdim=True) - x if x.numel() else x
    return (reference(input, dim) * (1 + below)).nan_to_num(nan=0.0)


def reference_backward(grad_output: torch.Tensor, output: torch.Tensor, dim: int) -> torch.Tensor:
    gradient, y = grad_output.double(), output.double()
    return y * (gradient - (gradient * y).sum(dim, keepdim=True))


def magnitude_backward(grad_output: torch.Tensor, output: torch.Tensor, dim: int) -> torch.Tensor:
    gradient, y = grad_output.double().abs(), output.double()
    return y * (gradient + (gradient * y).sum(dim, keepdim=True))


def eager(input: torch.Tensor, dim: int) -> torch.Tensor:
    """torch.softmax; for 2-byte dtypes on a CPU in float32, since PyTorch rounds exponentials there before summing."""
    if input.is_cpu and input.dtype.itemsize == 2:
        return torch.softmax(input, dim, dtype=torch.float32).to(input.dtype)
    return torch.softmax(input, dim)


def eager_backward(grad_output: torch.Tensor, output: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.ops.aten._softmax_backward_data(grad_output, output, dim, output.dtype)


def cost(input: torch.Tensor, dim: int) -> Cost:
    """One read, one write; for each element a comparison, a difference, an exponential, a sum and a product."""
    return Cost(bytes=2 * input.numel() * input.element_size(), flops=5 * input.numel())


def cost_backward(grad_output: torch.Tensor, output: torch.Tensor, dim: int) -> Cost:
    """Two reads, one write; for each element two products, a sum and a difference."""
    return Cost(bytes=3 * output.numel() * output.element_size(), flops=4 * output.numel())


CASES = (
    Case("aligned", {"rows": 5, "columns": 256}),
    Case("ragged", {"rows": 6, "columns": 1023}),
    Case("several_vectors", {"rows": 2, "columns": 5000}),
    Case("beyond_registers", {"rows": 1, "columns": 40008}),
    Case("short_rows", {"rows": 37, "columns": 3}),
    Case("rows_of_one", {"rows": 9, "columns": 1}),
    Case("rows_of_two", {"rows": 261, "columns": 2}),
    Case("rows_of_eleven", {"rows": 35, "columns": 11}),
    Case("middle_dimension", {"rows": 3, "columns": 17, "inner": 5}),
    Case("one_element", {"rows": 1, "columns": 1}),
    Case("empty", {"rows": 0, "columns": 12}),
    Case("empty_rows", {"rows": 4, "columns": 0}),
    Case("huge", {"rows": 4, "columns": 130}, values="huge"),
    Case("strided", {"rows": 3, "columns": 333}, layout="strided"),
    Case("unaligned", {"rows": 3, "columns": 520}, layout="unaligned"),
)
SIZES = (
    Case("wide", {"rows": 16384, "columns": 8192}),
    Case("ragged", {"rows": 16383, "columns": 4095}),
    Case("short_rows", {"rows": 2**20, "columns": 128}),
    Case("vocabulary", {"rows": 8192, "columns": 128256}),
)

SPEC = Spec(
    schema="softmax(Tensor input, int dim=-1) -> Tensor",
    summary="e^x / sum(e^x) along one dimension",
    inputs=inputs,
    check=check,
    outputs={"output": Output(like="input", terms=length_along, magnitude=magnitude)},
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        *CASES,
        Case("columns", {"rows": 70, "columns": 40}, {"dim": 0}),
        Case("few_rows", {"rows": 3, "columns": 300}, {"dim": 0}),
        Case("few_columns", {"rows": 40003, "columns": 2}, {"dim": 0}),
        Case("one_column", {"rows": 300, "columns": 1}, {"dim": 0}),
        Case("columns_of_one", {"rows": 1, "columns": 150}, {"dim": 0}),
        Case("masked", {"rows": 4, "columns": 300}, {"masked": True}),
        Case("masked_long", {"rows": 2, "columns": 40003}, {"masked": True}),
    ),
    sizes=SIZES,
    dtypes=KERNEL_DTYPES,
    autocast="float32",
)

BACKWARD = Spec(
    schema="softmax_backward(Tensor grad_output, Tensor output, int dim=-1) -> (Tensor grad_input)",
    summary="y * (dy - sum(dy * y)) along one dimension: the gradient of softmax from its output y",
    inputs=inputs_backward,
    check=check_backward,
    outputs={
        "grad_input": Output(
            like="grad_output",
            terms=lambda grad_output, output, dim: length_along(output, dim),
            magnitude=magnitude_backward,
        )
    },
    reference=reference_backward,
    eager=eager_backward,
    cost=cost_backward,
    cases=(
        *CASES,
        Case("columns", {"rows": 70, "columns": 40}, {"dim": 0}),
        Case("few_columns", {"rows": 10003, "columns": 2}, {"dim": 0}),
        Case("more_columns", {"rows": 90, "columns": 75}, {"dim": 0}),
    ),
    sizes=SIZES,
    dtypes=KERNEL_DTYPES,
    autocast="float32",
)
