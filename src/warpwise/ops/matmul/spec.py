"""The product of two matrices: what it is, knowing no kernel."""

from __future__ import annotations

import torch

from warpwise.ops._common import FLOATS, check_factors, check_tensor, draw, without_tf32
from warpwise.registry import Case, Cost, Spec

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.int8)
ELSEWHERE = {1: "ops.matvec multiplies a matrix by a vector", 3: "ops.batched_matmul multiplies batches of matrices"}
SCALED = (torch.float8_e4m3fn, torch.float8_e5m2)
INT8_DEPTH = 2**17 - 1  # products of int8 are up to 2^14, and so many of them stay below 2^31


def check(a: torch.Tensor, b: torch.Tensor) -> None:
    for name, factor in (("a", a), ("b", b)):
        if isinstance(factor, torch.Tensor) and factor.dtype in SCALED:
            known = ", ".join(map(str, DTYPES))
            raise TypeError(
                f"matmul: expected {name} of dtype {known}, got {factor.dtype}; ops.scaled_matmul multiplies fp8"
            )
        check_tensor("matmul", name, factor, DTYPES)
        if factor.dim() in ELSEWHERE:
            raise ValueError(
                f"matmul: expected {name} with 2 dimensions, got shape {tuple(factor.shape)}; {ELSEWHERE[factor.dim()]}"
            )
    check_factors("matmul", a, b, DTYPES)
    if a.dtype == torch.int8 and a.shape[1] > INT8_DEPTH:
        raise ValueError(
            f"matmul: expected a of torch.int8 with up to {INT8_DEPTH} columns, whose sums of products fit in 32 bits, "
            f"got {tuple(a.shape)}"
        )


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    m, n, k = (case.sizes[name] for name in ("m", "n", "k"))
    return draw(case, (m, k), dtype, device, 2 * seed, power=2), draw(
        case, (k, n), dtype, device, 2 * seed + 1, power=2
    )


def outputs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.new_empty((a.shape[0], b.shape[1]), dtype=torch.int32 if a.dtype == torch.int8 else a.dtype)


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """In float64, which holds the sums of int8 products exactly."""
    return a.double() @ b.double()


def magnitude(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.double().abs() @ b.double().abs()


def eager(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch.mm, which on a GPU is cuBLAS, float32 without TF32; for int8 see ``_of_int8``."""
    return _of_int8(a, b) if a.dtype == torch.int8 else without_tf32(torch.mm, a, b)


def _of_int8(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch._int_mm, which on a GPU is cuBLAS, of factors as it likes them: padded by zeros, b in columns.

    An H200's cuBLAS takes a row-major b at a seventh of its speed, and not at every size. On a CPU it may sum pairs of
    products in 16 bits, with saturation, where the CPU lacks VNNI; int32 factors do not.
    """
    if not a.is_cuda:
        return torch.mm(a.int(), b.int())
    (m, k), n = a.shape, b.shape[1]
    if 0 in (m, n, k):
        return a.new_zeros((m, n), dtype=torch.int32)
    rows, columns, depth = max(0, 32 - m), -n % 16, -k % 16
    if rows or depth:
        a = torch.nn.functional.pad(a, (0, depth, 0, rows))
    b = b.t()
    if columns or depth:
        b = torch.nn.functional.pad(b, (0, depth, 0, columns))
    a, b = a.contiguous(), b.contiguous()
    if not torch.compiler.is_compiling():
        a, b = (factor.clone() if factor.data_ptr() % 16 else factor for factor in (a, b))
    return torch._int_mm(a, b.t())[:m, :n].contiguous()


def cost(a: torch.Tensor, b: torch.Tensor) -> Cost:
    (m, k), n = a.shape, b.shape[1]
    written = m * n * (4 if a.dtype == torch.int8 else a.element_size())
    return Cost(bytes=(m * k + k * n) * a.element_size() + written, flops=2 * m * n * k)


SPEC = Spec(
    name="matmul",
    summary="the product of two matrices, accumulated in float32, or of int8 in int32",
    inputs=inputs,
    check=check,
    outputs=outputs,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("square", {"m": 48, "n": 48, "k": 48}),
        Case("ragged", {"m": 33, "n": 61, "k": 17}),
        Case("several_tiles", {"m": 130, "n": 132, "k": 20}),
        Case("ragged_tiles", {"m": 129, "n": 67, "k": 19}),
        Case("deep", {"m": 5, "n": 3, "k": 515}),
        Case("one_row", {"m": 1, "n": 70, "k": 33}),
        Case("one_element", {"m": 1, "n": 1, "k": 1}),
        Case("empty", {"m": 0, "n": 7, "k": 5}),
        Case("empty_sum", {"m": 6, "n": 7, "k": 0}),
        Case("huge", {"m": 20, "n": 24, "k": 36}, values="huge"),
        Case("strided", {"m": 30, "n": 28, "k": 20}, layout="strided"),
        Case("unaligned", {"m": 32, "n": 40, "k": 48}, layout="unaligned"),
    ),
    sizes=(
        Case("square", {"m": 4096, "n": 4096, "k": 4096}),
        Case("small", {"m": 1024, "n": 1024, "k": 1024}),
        Case("large", {"m": 8192, "n": 8192, "k": 8192}),
        Case("ragged", {"m": 4095, "n": 4095, "k": 4095}),
        Case("oblong", {"m": 1000, "n": 3000, "k": 777}),
        Case("few_rows", {"m": 16, "n": 4096, "k": 4096}),
    ),
    dtypes=(*KERNEL_DTYPES, torch.int8),
    terms=lambda a, b: a.shape[1],
    magnitude=magnitude,
    vendor="cuBLAS",
)
