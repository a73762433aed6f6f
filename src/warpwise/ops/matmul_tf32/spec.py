"""The specification of matmul_tf32."""

from __future__ import annotations

import math

import torch

from warpwise.gemm.operands import check_operands, draw_operands, product_cost, product_magnitude, product_reference
from warpwise.gemm.precision import with_tf32
from warpwise.operation import Case, Output, Spec

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
    return with_tf32(torch.mm, a, b)


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
    cost=product_cost,
    cases=(
        Case("square", {"m": 48, "n": 48, "k": 48}),
        Case("ragged", {"m": 33, "n": 61, "k": 17}),
        Case("outer", {"m": 67, "n": 71, "k": 1}),
        Case("several_tiles", {"m": 132, "n": 136, "k": 36}),
        Case("ragged_tiles", {"m": 129, "n": 67, "k": 35}),
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
    ),
    dtypes=(torch.float32,),
    vendor="cuBLAS",
)
