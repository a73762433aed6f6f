"""The specification of matrix_add: a + b over matrices."""

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
    check_tensor("matrix_add", "a", a, FLOATS, dims=(2,))
    check_tensor("matrix_add", "b", b, FLOATS, dims=(2,))
    check_same_shape("matrix_add", ("a", "b"), (a, b))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """``a`` and ``b``: with a size ``gap`` the last columns of matrices that are ``gap`` columns wider."""
    rows, cols, gap = case.sizes["rows"], case.sizes["cols"], case.sizes.get("gap", 0)
    shape, values = (rows, cols + gap), case.values
    return {
        "a": draw(shape, dtype, device, 2 * seed, values)[:, gap:],
        "b": draw(shape, dtype, device, 2 * seed + 1, values)[:, gap:],
    }


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double() + b.double()


def eager(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.add(a, b).contiguous()


def magnitude(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double().abs() + b.double().abs()


def cost(a: torch.Tensor, b: torch.Tensor) -> Cost:
    return Cost(bytes=3 * a.numel() * a.element_size(), flops=a.numel())


def backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"a": grad, "b": grad}


SPEC = Spec(
    schema="matrix_add(Tensor a, Tensor b) -> Tensor",
    summary="a + b, element by element, over matrices (M, N)",
    inputs=inputs,
    check=check,
    outputs={"output": Output(like="a", terms=2, magnitude=magnitude)},
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("tile", {"rows": 32, "cols": 64}),
        Case("ragged", {"rows": 37, "cols": 61}),
        Case("one_row", {"rows": 1, "cols": 257}),
        Case("one_column", {"rows": 131, "cols": 1}),
        Case("one_element", {"rows": 1, "cols": 1}),
        Case("empty", {"rows": 0, "cols": 5}),
        Case("huge", {"rows": 9, "cols": 33}, values="huge"),
        Case("strided_rows", {"rows": 17, "cols": 40, "gap": 8}),
        Case("ragged_strided_rows", {"rows": 17, "cols": 41, "gap": 3}),
        Case("strided", {"rows": 10, "cols": 35}, layout="strided"),
        Case("unaligned", {"rows": 16, "cols": 36}, layout="unaligned"),
    ),
    sizes=(
        Case("large", {"rows": 16384, "cols": 16384}),
        Case("ragged", {"rows": 16383, "cols": 16385}),
        Case("strided_rows", {"rows": 16384, "cols": 8192, "gap": 8192}),
    ),
    dtypes=FLOATS,
    gradient=Gradient(backward),
)
