"""The specification of matmul_tf32."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from warpwise.device.precision import in_precision
from warpwise.gemm.cases import CASES, TIMED, product_cases
from warpwise.gemm.operands import check_operands, draw_operands, product_cost, product_magnitude, product_reference
from warpwise.gemm.precision import planned_product
from warpwise.operation import Output, Spec

UNIT = 2.0**-24  # a rounding to float32
TRUNCATED = 2.0**-10  # the relative error of an operand truncated to TF32's 10 bits of mantissa


def check(a: torch.Tensor, b: torch.Tensor) -> None:
    check_operands("matmul_tf32", a, b, (torch.float32, torch.float64))


def magnitude(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The scale for which the lab's tolerance of one term, 17 units of 2^-24, is::

        (2 * t + u * (16 + min(k, 6 * sqrt(k)))) * (|a| @ |b|),    t = 2^-10, u = 2^-24

    The first term bounds the error of a product whose two operands are each truncated by a relative t: 2^-9. Rounding
    to nearest halves it. It is attained where all truncated bits are ones. The second term is that of any float32 sum
    (see the lab's tolerances). bfloat16 rounds operands by up to 2^-8 and exceeds the first term fourfold: cases with k
    = 1 reject it.
    """
    terms = max(1, a.shape[1])
    allowed = 2 * TRUNCATED + UNIT * (16 + min(terms, 6 * math.sqrt(terms)))
    return product_magnitude(a, b).mul_(allowed / (17 * UNIT))


def eager(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch.mm, which on a GPU is cuBLAS, with TF32."""
    return in_precision("matmul", "tf32", torch.mm, a, a, b)


def eager_plan(a: torch.Tensor, b: torch.Tensor) -> Callable[..., torch.Tensor]:
    return planned_product(torch.mm, a, "mm", "tf32")


OUTPUT = Output(shape=lambda a, b: (a.shape[0], b.shape[1]), terms=1, magnitude=magnitude)
SPEC = Spec(
    schema="matmul_tf32(Tensor a, Tensor b) -> Tensor",
    units="tf32",
    summary="the product of two float32 matrices, their elements rounded to TF32, accumulated in float32",
    outputs={"output": OUTPUT},
    inputs=draw_operands,
    check=check,
    reference=product_reference,
    eager=eager,
    eager_plan=eager_plan,
    cost=product_cost,
    cases=product_cases({**CASES, "outer": (67, 71, 1), "ragged_k_tiles": (129, 67, 35)}),
    sizes=product_cases(TIMED),
    dtypes=(torch.float32,),
    vendor="cuBLAS",
)
