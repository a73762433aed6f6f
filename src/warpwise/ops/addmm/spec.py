"""The specification of addmm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from warpwise.gemm.cases import CASES, TIMED, product_cases
from warpwise.gemm.operands import KERNEL_DTYPES, check_operands
from warpwise.gemm.precision import planned_product, without_tf32
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same, check_tensor, draw


def check(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> None:
    check_tensor("addmm", "input", input, FLOATS, dims=(0, 1, 2))
    check_operands("addmm", a, b, FLOATS)
    check_same("addmm", ("a", "input"), a, input)
    shape = (a.shape[0], b.shape[1])
    backwards = zip(reversed(input.shape), reversed(shape), strict=False)
    if any(size != wanted and size != 1 for size, wanted in backwards):
        raise ValueError(f"addmm: expected input to broadcast to {shape}, got {tuple(input.shape)}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """Attribute "input_shape": "matrix" (M, N) by default, "row" (N,), "column" (M, 1), "scalar" ()."""
    m, n, k = (case.sizes[name] for name in ("m", "n", "k"))
    shape = {"matrix": (m, n), "row": (n,), "column": (m, 1), "scalar": ()}[
        case.attributes.get("input_shape", "matrix")
    ]

    def drawn(number: int, *shape: int) -> torch.Tensor:
        return draw(shape, dtype, device, 3 * seed + number, case.values, power=2)

    return {"input": drawn(0, *shape), "a": drawn(1, m, k), "b": drawn(2, k, n)}


def reference(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    product = alpha * (a.double() @ b.double())
    return product if beta == 0 else beta * input.double() + product


def magnitude(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    return reference(input.double().abs(), a.double().abs(), b.double().abs(), abs(beta), abs(alpha))


def eager(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    """torch.addmm, which on a GPU is cuBLAS or cuBLASLt, never in TF32; for 2-byte types on a CPU in float32."""
    if a.is_cpu and a.dtype.itemsize == 2:
        return _scaled_addmm(input.float(), a.float(), b.float(), beta, alpha).to(a.dtype)
    return without_tf32(_product(beta, alpha), input, a, b, beta, alpha)


def eager_plan(
    input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> Callable[..., torch.Tensor]:
    if a.is_cpu and a.dtype.itemsize == 2:
        return eager
    return planned_product(_product(beta, alpha), a, "addmm")


def _product(beta: float, alpha: float) -> Callable[..., torch.Tensor]:
    """torch.addmm without keyword arguments, which take 1 µs of host time, if neither factor differs from 1."""
    return _plain_addmm if beta == alpha == 1 else _scaled_addmm


def _plain_addmm(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *ones: float) -> torch.Tensor:
    return torch.addmm(input, a, b)


def _scaled_addmm(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    return torch.addmm(input, a, b, beta=beta, alpha=alpha)


def cost(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> Cost:
    (m, k), n = a.shape, b.shape[1]
    read = m * k + k * n + (input.numel() if beta else 0)
    return Cost(bytes=(read + m * n) * a.element_size(), flops=2 * m * n * k)


SCALED = {"beta": -1.5, "alpha": 0.5}
OUTPUT = Output(
    shape=lambda input, a, b, *rest: (a.shape[0], b.shape[1]),
    dtype="a",
    terms=lambda input, a, *rest: a.shape[1] + 1,
    magnitude=magnitude,
)
SPEC = Spec(
    schema="addmm(Tensor input, Tensor a, Tensor b, float beta=1.0, float alpha=1.0) -> Tensor",
    summary="beta * C + alpha * A B, accumulated and added in float32",
    outputs={"output": OUTPUT},
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    eager_plan=eager_plan,
    cost=cost,
    autocast="low_precision",
    cases=product_cases(
        {**CASES, "small": (4, 5, 3), "column": (70, 40, 32), "scalar": (17, 24, 16)},
        {
            "ragged": {},
            "ragged_tiles": {"input_shape": "row", **SCALED},
            "column": {"input_shape": "column", **SCALED},
            "scalar": {"input_shape": "scalar"},
            "deep": {},
            "one_row": {"input_shape": "row"},
            "empty": {},
            "empty_sum": {"input_shape": "row", **SCALED},
        },
        otherwise=SCALED,
    ),
    sizes=product_cases(
        {
            "square": TIMED["square"],
            "bias": TIMED["square"],
            "shallow": (8192, 8192, 512),
            "large": TIMED["large"],
            "ragged": TIMED["oblong"],
        },
        {"bias": {"input_shape": "row"}},
        otherwise=SCALED,
    ),
    dtypes=KERNEL_DTYPES,
    vendor="cuBLAS",
)
