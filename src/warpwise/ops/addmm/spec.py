"""The specification of addmm."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.gemm.operands import KERNEL_DTYPES, check_operands
from warpwise.gemm.precision import without_tf32
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


def _addmm(a: torch.Tensor, b: torch.Tensor, input: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    return torch.addmm(input, a, b, beta=beta, alpha=alpha)


def eager(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    """torch.addmm, which on a GPU is cuBLAS or cuBLASLt, never in TF32; for 2-byte types on a CPU in float32."""
    if a.is_cpu and a.dtype.itemsize == 2:
        return _addmm(a.float(), b.float(), input.float(), beta, alpha).to(a.dtype)
    if beta == alpha == 1:
        return without_tf32(torch.addmm, input, a, b)  # keywords cost the host 1 µs
    return without_tf32(_addmm, a, b, input, beta, alpha)


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
    cost=cost,
    autocast="low_precision",
    cases=(
        Case("small", {"m": 4, "n": 5, "k": 3}, SCALED),
        Case("square", {"m": 48, "n": 48, "k": 48}, SCALED),
        Case("ragged", {"m": 33, "n": 61, "k": 17}),
        Case("several_tiles", {"m": 130, "n": 136, "k": 24}, SCALED),
        Case("ragged_tiles", {"m": 129, "n": 67, "k": 19}, {"input_shape": "row", **SCALED}),
        Case("column", {"m": 70, "n": 40, "k": 32}, {"input_shape": "column", **SCALED}),
        Case("scalar", {"m": 17, "n": 24, "k": 16}, {"input_shape": "scalar"}),
        Case("deep", {"m": 5, "n": 3, "k": 515}),
        Case("one_row", {"m": 1, "n": 70, "k": 33}, {"input_shape": "row"}),
        Case("one_element", {"m": 1, "n": 1, "k": 1}, SCALED),
        Case("empty", {"m": 0, "n": 7, "k": 5}),
        Case("empty_sum", {"m": 6, "n": 7, "k": 0}, {"input_shape": "row", **SCALED}),
        Case("huge", {"m": 20, "n": 24, "k": 36}, SCALED, values="huge"),
        Case("strided", {"m": 30, "n": 28, "k": 20}, SCALED, layout="strided"),
        Case("unaligned", {"m": 32, "n": 40, "k": 48}, SCALED, layout="unaligned"),
    ),
    sizes=(
        Case("square", {"m": 4096, "n": 4096, "k": 4096}, SCALED),
        Case("bias", {"m": 4096, "n": 4096, "k": 4096}, {"input_shape": "row"}),
        Case("shallow", {"m": 8192, "n": 8192, "k": 512}, SCALED),
        Case("large", {"m": 8192, "n": 8192, "k": 8192}, SCALED),
        Case("ragged", {"m": 1000, "n": 3000, "k": 777}, SCALED),
    ),
    dtypes=KERNEL_DTYPES,
    vendor="cuBLAS",
)
