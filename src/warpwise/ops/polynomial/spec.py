"""The specifications of polynomial, x² + x + 1, and of its backward, grad · (2x + 1)."""

from __future__ import annotations

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same_shape, check_tensor, draw


def _computed(values: torch.Tensor) -> torch.Tensor:
    """``values`` in the dtype of the computation: float32 for 2-byte dtypes, which are rounded once, at the end."""
    return values.float() if values.element_size() == 2 else values


def check(input: torch.Tensor) -> None:
    check_tensor("polynomial", "input", input, FLOATS)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """``input`` of shape (rows, cols)."""
    shape = (case.sizes["rows"], case.sizes["cols"])
    return {"input": draw(shape, dtype, device, seed, case.values, power=2)}


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


def backward_check(grad_output: torch.Tensor, input: torch.Tensor) -> None:
    check_tensor("polynomial_backward", "grad_output", grad_output, FLOATS)
    check_tensor("polynomial_backward", "input", input, FLOATS)
    check_same_shape("polynomial_backward", ("grad_output", "input"), (grad_output, input))


def backward_inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """``grad_output`` and ``input`` of shape (rows, cols)."""
    shape = (case.sizes["rows"], case.sizes["cols"])
    return {
        "grad_output": draw(shape, dtype, device, 2 * seed, case.values, power=2),
        "input": draw(shape, dtype, device, 2 * seed + 1, case.values, power=2),
    }


def backward_reference(grad_output: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    return grad_output.double() * (2 * input.double() + 1)


def backward_eager(grad_output: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    return (_computed(grad_output) * (2 * _computed(input) + 1)).to(input.dtype).contiguous()


def backward_magnitude(grad_output: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    return backward_reference(grad_output.double().abs(), input.double().abs())


def backward_cost(grad_output: torch.Tensor, input: torch.Tensor) -> Cost:
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
    schema="polynomial(Tensor input) -> Tensor",
    summary="x² + x + 1, element by element, over a tensor of any shape",
    inputs=inputs,
    check=check,
    outputs={"output": Output(like="input", terms=3, magnitude=magnitude)},
    reference=reference,
    eager=eager,
    cost=cost,
    cases=CASES,
    sizes=SIZES,
    dtypes=FLOATS,
)

BACKWARD = Spec(
    schema="polynomial_backward(Tensor grad_output, Tensor input) -> (Tensor grad_input)",
    summary="grad · (2x + 1), the gradient of x² + x + 1",
    inputs=backward_inputs,
    check=backward_check,
    outputs={"grad_input": Output(like="input", terms=2, magnitude=backward_magnitude)},
    reference=backward_reference,
    eager=backward_eager,
    cost=backward_cost,
    cases=CASES,
    sizes=SIZES,
    dtypes=FLOATS,
)
