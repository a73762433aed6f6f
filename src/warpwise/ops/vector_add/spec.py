"""The specification of vector_add: a + b over vectors."""

from __future__ import annotations

import torch

from warpwise.operation import (
    FLOATS,
    Case,
    Cost,
    Gradient,
    Output,
    Saved,
    Spec,
    check_same_shape,
    check_tensor,
    draw,
)


def check(a: torch.Tensor, b: torch.Tensor) -> None:
    check_tensor("vector_add", "a", a, FLOATS, dims=(1,))
    check_tensor("vector_add", "b", b, FLOATS, dims=(1,))
    check_same_shape("vector_add", ("a", "b"), (a, b))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    shape, values = (case.sizes["n"],), case.values
    return {
        "a": draw(shape, dtype, device, 2 * seed, values),
        "b": draw(shape, dtype, device, 2 * seed + 1, values),
    }


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double() + b.double()


def magnitude(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double().abs() + b.double().abs()


def cost(a: torch.Tensor, b: torch.Tensor) -> Cost:
    return Cost(bytes=3 * a.numel() * a.element_size(), flops=a.numel())


def backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"a": grad, "b": grad}


SPEC = Spec(
    schema="vector_add(Tensor a, Tensor b) -> Tensor",
    summary="a + b, element by element, over vectors (N,)",
    inputs=inputs,
    check=check,
    outputs={"output": Output(like="a", terms=2, magnitude=magnitude)},
    reference=reference,
    eager=torch.add,
    cost=cost,
    cases=(
        Case("block", {"n": 256}),
        Case("ragged", {"n": 4099}),
        Case("one_element", {"n": 1}),
        Case("empty", {"n": 0}),
        Case("huge", {"n": 515}, values="huge"),
        Case("strided", {"n": 333}, layout="strided"),
        Case("unaligned", {"n": 1030}, layout="unaligned"),
    ),
    sizes=(
        Case("large", {"n": 2**28}),
        Case("ragged", {"n": 2**26 + 3}),
        Case("medium", {"n": 2**24}),
    ),
    dtypes=FLOATS,
    gradient=Gradient(backward),
)
