"""The specification of square: x * x."""

from __future__ import annotations

import torch

from warpwise.operation import FLOATS, Case, Cost, Gradient, Output, Saved, Spec, check_tensor, draw


def check(input: torch.Tensor) -> None:
    check_tensor("square", "input", input, FLOATS)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """``input`` of shape (rows, cols)."""
    shape = (case.sizes["rows"], case.sizes["cols"])
    return {"input": draw(shape, dtype, device, seed, case.values, power=2)}


def reference(input: torch.Tensor) -> torch.Tensor:
    return input.double() * input.double()


def eager(input: torch.Tensor) -> torch.Tensor:
    return torch.square(input).contiguous()


def cost(input: torch.Tensor) -> Cost:
    return Cost(bytes=2 * input.numel() * input.element_size(), flops=input.numel())


def backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    """d(x²)/dx = 2x, in differentiable operators."""
    return {"input": 2 * saved.input * grad}


SPEC = Spec(
    schema="square(Tensor input) -> Tensor",
    summary="x * x, element by element, over a tensor of any shape",
    inputs=inputs,
    check=check,
    outputs={"output": Output(like="input")},
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("block", {"rows": 4, "cols": 256}),
        Case("ragged", {"rows": 37, "cols": 111}),
        Case("one_element", {"rows": 1, "cols": 1}),
        Case("empty", {"rows": 3, "cols": 0}),
        Case("huge", {"rows": 5, "cols": 67}, values="huge"),
        Case("strided", {"rows": 9, "cols": 33}, layout="strided"),
        Case("unaligned", {"rows": 7, "cols": 65}, layout="unaligned"),
    ),
    sizes=(
        Case("large", {"rows": 16384, "cols": 16384}),
        Case("ragged", {"rows": 8191, "cols": 8193}),
        Case("medium", {"rows": 4096, "cols": 4096}),
    ),
    dtypes=FLOATS,
    autocast="float32",  # as of torch.square, a power
    gradient=Gradient(backward, saves=("input",)),
)
