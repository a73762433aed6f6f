"""x² + x + 1, and its gradient grad · (2x + 1): what they are, knowing no kernel."""

from __future__ import annotations

import torch

from warpwise.ops._common import FLOATS, check_alike, check_tensor, draw
from warpwise.registry import Case, Cost, Spec


def _computed(values: torch.Tensor) -> torch.Tensor:
    """``values`` in the type that is computed in: 2-byte floating point is rounded once, at the end."""
    return values.float() if values.element_size() == 2 else values


def check(input: torch.Tensor) -> None:
    check_tensor("polynomial", "input", input, FLOATS)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> tuple[torch.Tensor]:
    """``input`` of shape (rows, cols)."""
    return (draw(case, (case.sizes["rows"], case.sizes["cols"]), dtype, device, seed, power=2),)


def outputs(input: torch.Tensor) -> torch.Tensor:
    return input.new_empty(input.shape)


def reference(input: torch.Tensor) -> torch.Tensor:
    x = input.double()
    return x * x + x + 1


def eager(input: torch.Tensor) -> torch.Tensor:
    x = _computed(input)
    return (x * x + x + 1).to(input.dtype).contiguous()


def magnitude(input: torch.Tensor) -> torch.Tensor:
    return reference(input.double().abs())


def cost(input: torch.Tensor) -> Cost:
    return Cost(bytes=2 * input.numel() * input.element_size(), flops=3 * input.numel())


def backward_check(grad: torch.Tensor, input: torch.Tensor) -> None:
    check_tensor("polynomial_backward", "grad", grad, FLOATS)
    check_tensor("polynomial_backward", "input", input, FLOATS)
    check_alike("polynomial_backward", ("grad", "input"), (grad, input))


def backward_inputs(
    case: Case, dtype: torch.dtype, device: torch.device, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """``grad`` and ``input`` of shape (rows, cols)."""
    shape = (case.sizes["rows"], case.sizes["cols"])
    grad = draw(case, shape, dtype, device, 2 * seed, power=2)
    return grad, draw(case, shape, dtype, device, 2 * seed + 1, power=2)


def backward_outputs(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    return input.new_empty(input.shape)


def backward_reference(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    return grad.double() * (2 * input.double() + 1)


def backward_eager(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    return (_computed(grad) * (2 * _computed(input) + 1)).to(input.dtype).contiguous()


def backward_magnitude(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    return backward_reference(grad.double().abs(), input.double().abs())


def backward_cost(grad: torch.Tensor, input: torch.Tensor) -> Cost:
    return Cost(bytes=3 * input.numel() * input.element_size(), flops=3 * input.numel())


CASES = (
    Case("block", {"rows": 4, "cols": 256}),
    Case("ragged", {"rows": 37, "cols": 111}),
    Case("one_element", {"rows": 1, "cols": 1}),
    Case("empty", {"rows": 3, "cols": 0}),
    Case("huge", {"rows": 5, "cols": 67}, values="huge"),
    Case("strided", {"rows": 9, "cols": 33}, layout="strided"),
    Case("unaligned", {"rows": 7, "cols": 65}, layout="unaligned"),
)
SIZES = (
    Case("large", {"rows": 16384, "cols": 16384}),
    Case("ragged", {"rows": 8191, "cols": 8193}),
    Case("medium", {"rows": 4096, "cols": 4096}),
)

SPEC = Spec(
    name="polynomial",
    summary="x² + x + 1, element by element, over a tensor of any shape",
    inputs=inputs,
    check=check,
    outputs=outputs,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=CASES,
    sizes=SIZES,
    dtypes=FLOATS,
    terms=lambda input: 3,
    magnitude=magnitude,
)

BACKWARD = Spec(
    name="polynomial_backward",
    summary="grad · (2x + 1), the gradient of x² + x + 1",
    inputs=backward_inputs,
    check=backward_check,
    outputs=backward_outputs,
    reference=backward_reference,
    eager=backward_eager,
    cost=backward_cost,
    cases=CASES,
    sizes=SIZES,
    dtypes=FLOATS,
    terms=lambda grad, input: 2,
    magnitude=backward_magnitude,
)
