"""a + b over vectors: what it is, knowing no kernel."""

from __future__ import annotations

import torch

from warpwise.ops._common import FLOATS, check_alike, check_tensor, draw
from warpwise.registry import Case, Cost, Spec


def check(a: torch.Tensor, b: torch.Tensor) -> None:
    check_tensor("vector_add", "a", a, FLOATS, dims=(1,))
    check_tensor("vector_add", "b", b, FLOATS, dims=(1,))
    check_alike("vector_add", ("a", "b"), (a, b))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (case.sizes["n"],)
    return draw(case, shape, dtype, device, 2 * seed), draw(case, shape, dtype, device, 2 * seed + 1)


def outputs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.new_empty(a.shape)


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double() + b.double()


def magnitude(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double().abs() + b.double().abs()


def cost(a: torch.Tensor, b: torch.Tensor) -> Cost:
    return Cost(bytes=3 * a.numel() * a.element_size(), flops=a.numel())


SPEC = Spec(
    name="vector_add",
    summary="a + b, element by element, over vectors (N,)",
    inputs=inputs,
    check=check,
    outputs=outputs,
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
    terms=lambda a, b: 2,
    magnitude=magnitude,
)
