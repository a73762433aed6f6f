"""A scaled matrix added to a scaled product: what it is, knowing no kernel."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._common import FLOATS, check_companion, check_factors, check_tensor, draw, without_tf32
from warpwise.registry import Case, Cost, Spec

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> None:
    check_tensor("addmm", "input", input, FLOATS, dims=(0, 1, 2))
    check_factors("addmm", a, b, FLOATS)
    check_companion("addmm", ("a", "input"), a, input)
    shape = (a.shape[0], b.shape[1])
    backwards = zip(reversed(input.shape), reversed(shape), strict=False)
    if any(size != wanted and size != 1 for size, wanted in backwards):
        raise ValueError(f"addmm: expected input to broadcast to {shape}, got {tuple(input.shape)}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> tuple[Any, ...]:
    """Sizes m, n, k. The input has the shape ``added`` counts: 1 (M, N), 2 (N,), 3 (M, 1), 4 (); beta is -1.5 and alpha
    0.5 where ``scaled`` is 1, else both are 1."""
    m, n, k = (case.sizes[name] for name in ("m", "n", "k"))
    shape = ((m, n), (n,), (m, 1), ())[case.sizes.get("added", 1) - 1]
    factors = (-1.5, 0.5) if case.sizes.get("scaled") else (1.0, 1.0)
    return (
        draw(case, shape, dtype, device, 3 * seed, power=2), draw(case, (m, k), dtype, device, 3 * seed + 1, power=2),
        draw(case, (k, n), dtype, device, 3 * seed + 2, power=2), *factors,
    )  # fmt: skip


def outputs(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    return a.new_empty((a.shape[0], b.shape[1]))


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


SPEC = Spec(
    name="addmm",
    summary="beta * C + alpha * A B, accumulated and added in float32",
    inputs=inputs,
    check=check,
    outputs=outputs,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("small", {"m": 4, "n": 5, "k": 3, "scaled": 1}),
        Case("square", {"m": 48, "n": 48, "k": 48, "scaled": 1}),
        Case("ragged", {"m": 33, "n": 61, "k": 17, "added": 1}),
        Case("several_tiles", {"m": 130, "n": 136, "k": 24, "scaled": 1}),
        Case("ragged_tiles", {"m": 129, "n": 67, "k": 19, "added": 2, "scaled": 1}),
        Case("column", {"m": 70, "n": 40, "k": 32, "added": 3, "scaled": 1}),
        Case("scalar", {"m": 17, "n": 24, "k": 16, "added": 4}),
        Case("deep", {"m": 5, "n": 3, "k": 515}),
        Case("one_row", {"m": 1, "n": 70, "k": 33, "added": 2}),
        Case("one_element", {"m": 1, "n": 1, "k": 1, "added": 1, "scaled": 1}),
        Case("empty", {"m": 0, "n": 7, "k": 5}),
        Case("empty_sum", {"m": 6, "n": 7, "k": 0, "added": 2, "scaled": 1}),
        Case("huge", {"m": 20, "n": 24, "k": 36, "scaled": 1}, values="huge"),
        Case("strided", {"m": 30, "n": 28, "k": 20, "scaled": 1}, layout="strided"),
        Case("unaligned", {"m": 32, "n": 40, "k": 48, "scaled": 1}, layout="unaligned"),
    ),
    sizes=(
        Case("square", {"m": 4096, "n": 4096, "k": 4096, "scaled": 1}),
        Case("bias", {"m": 4096, "n": 4096, "k": 4096, "added": 2}),
        Case("shallow", {"m": 8192, "n": 8192, "k": 512, "scaled": 1}),
        Case("large", {"m": 8192, "n": 8192, "k": 8192, "scaled": 1}),
        Case("ragged", {"m": 1000, "n": 3000, "k": 777, "scaled": 1}),
    ),
    dtypes=KERNEL_DTYPES,
    terms=lambda input, a, *rest: a.shape[1] + 1,
    magnitude=magnitude,
    vendor="cuBLAS",
)
