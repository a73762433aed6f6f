"""The product of a matrix and a vector: what it is, knowing no kernel."""

from __future__ import annotations

import torch

from warpwise.ops._common import FLOATS, check_companion, check_tensor, draw
from warpwise.registry import Case, Cost, Spec

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check(a: torch.Tensor, x: torch.Tensor) -> None:
    check_tensor("matvec", "a", a, FLOATS, dims=(2,))
    check_tensor("matvec", "x", x, FLOATS, dims=(1,))
    check_companion("matvec", "ax", a, x)
    if x.shape[0] != a.shape[1]:
        raise ValueError(
            f"matvec: expected x with an element for each column of a, a (M, K) and x (K,), "
            f"got {tuple(a.shape)} and {tuple(x.shape)}"
        )


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """``across`` = 1 in the sizes makes a the transpose of a (K, M) matrix: its columns lie in memory one after another."""
    m, k = case.sizes["m"], case.sizes["k"]
    across = case.sizes.get("across", 0)
    a = draw(case, (k, m) if across else (m, k), dtype, device, 2 * seed, power=2)
    return a.t() if across else a, draw(case, (k,), dtype, device, 2 * seed + 1, power=2)


def outputs(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return a.new_empty(a.shape[0])


def reference(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return a.double() @ x.double()


def magnitude(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return a.double().abs() @ x.double().abs()


def cost(a: torch.Tensor, x: torch.Tensor) -> Cost:
    m, k = a.shape
    return Cost(bytes=(m * k + k + m) * a.element_size(), flops=2 * m * k)


SPEC = Spec(
    name="matvec",
    summary="the product of a matrix and a vector, accumulated in float32",
    inputs=inputs,
    check=check,
    outputs=outputs,
    reference=reference,
    eager=torch.mv,
    cost=cost,
    cases=(
        Case("square", {"m": 64, "k": 64}),
        Case("ragged", {"m": 61, "k": 83}),
        Case("long_rows", {"m": 3, "k": 9001}),
        Case("short_rows", {"m": 515, "k": 5}),
        Case("one_row", {"m": 1, "k": 4096}),
        Case("one_column", {"m": 37, "k": 1}),
        Case("one_element", {"m": 1, "k": 1}),
        Case("empty", {"m": 0, "k": 5}),
        Case("empty_sum", {"m": 6, "k": 0}),
        Case("across", {"m": 264, "k": 72, "across": 1}),
        Case("ragged_across", {"m": 261, "k": 77, "across": 1}),
        Case("few_rows_across", {"m": 8, "k": 1200, "across": 1}),
        Case("huge", {"m": 20, "k": 100}, values="huge"),
        Case("strided", {"m": 30, "k": 133}, layout="strided"),
        Case("unaligned", {"m": 32, "k": 160}, layout="unaligned"),
        Case("unaligned_across", {"m": 160, "k": 32, "across": 1}, layout="unaligned"),
    ),
    sizes=(
        Case("square", {"m": 16384, "k": 16384}),
        Case("across", {"m": 16384, "k": 16384, "across": 1}),
        Case("layer", {"m": 4096, "k": 14336}),
        Case("ragged", {"m": 8191, "k": 8191}),
        Case("few_rows", {"m": 16, "k": 2**22}),
    ),
    dtypes=KERNEL_DTYPES,
    terms=lambda a, x: a.shape[1],
    magnitude=magnitude,
    vendor="cuBLAS",
)
