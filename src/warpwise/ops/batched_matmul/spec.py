"""The specification of batched_matmul."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from warpwise.gemm.operands import KERNEL_DTYPES, Shape, product_magnitude, product_reference
from warpwise.gemm.precision import planned_product, without_tf32
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same, check_tensor, draw

OP = "batched_matmul"


def check(a: torch.Tensor, b: torch.Tensor) -> None:
    check_tensor(OP, "a", a, FLOATS, dims=(2, 3))
    check_tensor(OP, "b", b, FLOATS, dims=(2, 3))
    check_same(OP, "ab", a, b)
    shapes = f"got {tuple(a.shape)} and {tuple(b.shape)}"
    if a.dim() == b.dim() == 2:
        raise ValueError(f"{OP}: expected a batch of matrices, (B, M, K) or (B, K, N), as a or b, {shapes}; see matmul")
    if a.dim() == b.dim() and a.shape[0] != b.shape[0]:
        raise ValueError(f"{OP}: expected as many matrices in b as in a, or one of the two with 2 dimensions, {shapes}")
    if b.shape[-2] != a.shape[-1]:
        raise ValueError(f"{OP}: expected b with as many rows as a has columns, a (B, M, K) and b (B, K, N), {shapes}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """(B, M, K) and (B, K, N). Attributes: "shared_a": one matrix a, "transposed_a": column-major; b likewise."""

    def drawn(name: str, rows: int, columns: int, seed: int) -> torch.Tensor:
        batch = () if case.attributes.get(f"shared_{name}") else (case.sizes["batch"],)
        transposed = case.attributes.get(f"transposed_{name}")
        shape = (*batch, columns, rows) if transposed else (*batch, rows, columns)
        matrices = draw(shape, dtype, device, seed, case.values, power=2)
        return matrices.mT if transposed else matrices

    m, n, k = (case.sizes[name] for name in ("m", "n", "k"))
    return {"a": drawn("a", m, k, 2 * seed), "b": drawn("b", k, n, 2 * seed + 1)}


def output_shape(a: torch.Tensor, b: torch.Tensor) -> tuple[int, int, int]:
    return Shape.of(a, b)[:3]


def eager(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch.bmm, which on a GPU is cuBLAS, in float32 without TF32."""
    if a.dim() == 2:
        a = a.expand(b.shape[0], -1, -1)
    elif b.dim() == 2:
        b = b.expand(a.shape[0], -1, -1)
    return without_tf32(torch.bmm, a, b)


def eager_plan(a: torch.Tensor, b: torch.Tensor) -> Callable[..., torch.Tensor]:
    return planned_product(torch.bmm, a, "bmm") if a.dim() == b.dim() else eager


def distinct(tensor: torch.Tensor) -> int:
    """The number of elements in memory: a broadcast dimension, of stride 0, counts once."""
    return math.prod(size if stride else 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def cost(a: torch.Tensor, b: torch.Tensor) -> Cost:
    batch, m, n, k = Shape.of(a, b)
    return Cost(bytes=(distinct(a) + distinct(b) + batch * m * n) * a.element_size(), flops=2 * batch * m * n * k)


OUTPUT = Output(shape=output_shape, terms=lambda a, b: a.shape[-1], magnitude=product_magnitude)
SPEC = Spec(
    schema="batched_matmul(Tensor a, Tensor b) -> Tensor",
    summary="the products of two batches of matrices, accumulated in float32",
    outputs={"output": OUTPUT},
    inputs=inputs,
    check=check,
    reference=product_reference,
    eager=eager,
    eager_plan=eager_plan,
    cost=cost,
    autocast="low_precision",
    cases=(
        Case("square", {"batch": 3, "m": 48, "n": 48, "k": 48}),
        Case("ragged", {"batch": 2, "m": 33, "n": 61, "k": 17}),
        Case("several_tiles", {"batch": 2, "m": 130, "n": 136, "k": 72}),
        Case("ragged_tiles", {"batch": 2, "m": 129, "n": 67, "k": 19}),
        Case("many", {"batch": 37, "m": 3, "n": 5, "k": 4}),
        Case("transposed_a", {"batch": 2, "m": 40, "n": 24, "k": 56}, {"transposed_a": True}),
        Case("transposed_b", {"batch": 2, "m": 40, "n": 24, "k": 56}, {"transposed_b": True}),
        Case("transposed", {"batch": 2, "m": 72, "n": 24, "k": 40}, {"transposed_a": True, "transposed_b": True}),
        Case("shared_a", {"batch": 3, "m": 24, "n": 16, "k": 40}, {"shared_a": True}),
        Case("shared_b", {"batch": 3, "m": 24, "n": 16, "k": 40}, {"shared_b": True}),
        Case("one_element", {"batch": 1, "m": 1, "n": 1, "k": 1}),
        Case("empty", {"batch": 0, "m": 6, "n": 7, "k": 5}),
        Case("empty_sum", {"batch": 2, "m": 6, "n": 7, "k": 0}),
        Case("huge", {"batch": 2, "m": 20, "n": 24, "k": 36}, values="huge"),
        Case("strided", {"batch": 2, "m": 30, "n": 28, "k": 20}, layout="strided"),
        Case("unaligned", {"batch": 2, "m": 32, "n": 40, "k": 48}, layout="unaligned"),
    ),
    sizes=(
        Case("square", {"batch": 16, "m": 1024, "n": 1024, "k": 1024}),
        Case("scores", {"batch": 64, "m": 2048, "n": 2048, "k": 128}, {"transposed_b": True}),
        Case("values", {"batch": 64, "m": 2048, "n": 128, "k": 2048}),
        Case("small", {"batch": 512, "m": 128, "n": 128, "k": 128}),
        Case("ragged", {"batch": 16, "m": 1000, "n": 777, "k": 999}),
    ),
    dtypes=KERNEL_DTYPES,
    vendor="cuBLAS",
)
