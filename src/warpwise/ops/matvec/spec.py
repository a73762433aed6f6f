"""The specification of matvec."""

from __future__ import annotations

import torch

from warpwise.gemm.precision import planned_product
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same, check_tensor, draw

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check(a: torch.Tensor, x: torch.Tensor) -> None:
    check_tensor("matvec", "a", a, FLOATS, dims=(2,))
    check_tensor("matvec", "x", x, FLOATS, dims=(1,))
    check_same("matvec", "ax", a, x)
    if x.shape[0] != a.shape[1]:
        raise ValueError(
            f"matvec: expected x with an element for each column of a, a (M, K) and x (K,), "
            f"got {tuple(a.shape)} and {tuple(x.shape)}"
        )


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """The attribute "column_major" makes a the transpose of a row-major (K, M) matrix."""
    m, k = case.sizes["m"], case.sizes["k"]
    column_major = case.attributes.get("column_major")
    a = draw((k, m) if column_major else (m, k), dtype, device, 2 * seed, case.values, power=2)
    return {"a": a.t() if column_major else a, "x": draw((k,), dtype, device, 2 * seed + 1, case.values, power=2)}


def reference(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return a.double() @ x.double()


def magnitude(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return a.double().abs() @ x.double().abs()


def cost(a: torch.Tensor, x: torch.Tensor) -> Cost:
    m, k = a.shape
    return Cost(bytes=(m * k + k + m) * a.element_size(), flops=2 * m * k)


OUTPUT = Output(shape=lambda a, x: (a.shape[0],), terms=lambda a, x: a.shape[1], magnitude=magnitude)
SPEC = Spec(
    schema="matvec(Tensor a, Tensor x) -> Tensor",
    summary="the product of a matrix and a vector, accumulated in float32",
    outputs={"output": OUTPUT},
    inputs=inputs,
    check=check,
    reference=reference,
    eager=torch.mv,
    eager_plan=lambda a, x: planned_product(torch.mv, a, "mv"),
    cost=cost,
    autocast="low_precision",
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
        Case("across", {"m": 264, "k": 72}, {"column_major": True}),
        Case("ragged_across", {"m": 261, "k": 77}, {"column_major": True}),
        Case("few_rows_across", {"m": 8, "k": 1200}, {"column_major": True}),
        Case("huge", {"m": 20, "k": 100}, values="huge"),
        Case("strided", {"m": 30, "k": 133}, layout="strided"),
        Case("unaligned", {"m": 32, "k": 160}, layout="unaligned"),
        Case("unaligned_across", {"m": 160, "k": 32}, {"column_major": True}, layout="unaligned"),
    ),
    sizes=(
        Case("square", {"m": 16384, "k": 16384}),
        Case("across", {"m": 16384, "k": 16384}, {"column_major": True}),
        Case("layer", {"m": 4096, "k": 14336}),
        Case("ragged", {"m": 8191, "k": 8191}),
        Case("few_rows", {"m": 16, "k": 2**22}),
    ),
    dtypes=KERNEL_DTYPES,
    vendor="cuBLAS",
)
