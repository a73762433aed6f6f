"""The specification of matmul."""

from __future__ import annotations

from collections.abc import Callable

import torch

from warpwise.gemm.cases import CASES, TIMED, product_cases
from warpwise.gemm.operands import (
    KERNEL_DTYPES,
    check_operands,
    draw_operands,
    product_cost,
    product_magnitude,
    product_reference,
)  # fmt: skip
from warpwise.gemm.precision import planned_product, without_tf32
from warpwise.operation import FLOATS, Output, Spec, check_tensor

DTYPES = (*FLOATS, torch.int8)
OTHER_OPS = {1: "ops.matvec multiplies a matrix by a vector", 3: "ops.batched_matmul multiplies batches of matrices"}
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
MAX_INT8_K = 2**17 - 1  # int8 products are up to 2^14; sums of so many stay below 2^31


def check(a: torch.Tensor, b: torch.Tensor) -> None:
    for name, operand in (("a", a), ("b", b)):
        if isinstance(operand, torch.Tensor) and operand.dtype in FP8:
            known = ", ".join(map(str, DTYPES))
            raise TypeError(
                f"matmul: expected {name} of dtype {known}, got {operand.dtype}; ops.scaled_matmul multiplies fp8"
            )
        check_tensor("matmul", name, operand, DTYPES)
        if operand.dim() in OTHER_OPS:
            raise ValueError(
                f"matmul: expected {name} with 2 dimensions, got shape {tuple(operand.shape)}; "
                f"{OTHER_OPS[operand.dim()]}"
            )
    check_operands("matmul", a, b, DTYPES)
    if a.dtype == torch.int8 and a.shape[1] > MAX_INT8_K:
        raise ValueError(
            f"matmul: expected a of torch.int8 with up to {MAX_INT8_K} columns, whose sums of products fit in 32 bits, "
            f"got {tuple(a.shape)}"
        )


def eager(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch.mm, which on a GPU is cuBLAS, float32 without TF32; for int8 see ``_of_int8``."""
    return _of_int8(a, b) if a.dtype == torch.int8 else without_tf32(torch.mm, a, b)


def eager_plan(a: torch.Tensor, b: torch.Tensor) -> Callable[..., torch.Tensor]:
    return eager if a.dtype == torch.int8 else planned_product(torch.mm, a, "mm")


def _of_int8(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch._int_mm, which on a GPU is cuBLAS, with operands padded by zeros and b column-major.

    On an H200, cuBLAS is seven times slower with a row-major b, and does not support every size. On a CPU without VNNI,
    torch._int_mm may sum pairs of products in 16 bits, with saturation; int32 operands avoid that.
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
        a, b = (operand.clone() if operand.data_ptr() % 16 else operand for operand in (a, b))
    return torch._int_mm(a, b.t())[:m, :n].contiguous()


OUTPUT = Output(
    shape=lambda a, b: (a.shape[0], b.shape[1]),
    dtype=lambda a, b: torch.int32 if a.dtype == torch.int8 else a.dtype,
    terms=lambda a, b: a.shape[1],
    magnitude=product_magnitude,
)
SPEC = Spec(
    schema="matmul(Tensor a, Tensor b) -> Tensor",
    summary="the product of two matrices, accumulated in float32, or of int8 in int32",
    outputs={"output": OUTPUT},
    inputs=draw_operands,
    check=check,
    reference=product_reference,
    eager=eager,
    eager_plan=eager_plan,
    cost=product_cost,
    autocast="low_precision",
    cases=product_cases({**CASES, "several_float32_tiles": (130, 132, 20)}),
    sizes=product_cases({**TIMED, "few_rows": (16, 4096, 4096)}),
    dtypes=(*KERNEL_DTYPES, torch.int8),
    vendor="cuBLAS",
)
