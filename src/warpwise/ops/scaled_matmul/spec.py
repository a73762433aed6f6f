"""The specification of scaled_matmul.

Accuracy. A product of two fp8 values has at most 8 significant bits. Hopper's tensor cores add 32 products and the
accumulator after aligning them to the largest and truncating 13 bits after its binary point. An accumulator in wgmma
therefore loses its last bits every 32 products, always towards zero. This operation adds groups of at most 256 products
in float32: truncation occurs only within a group, by less than 2^-13 of the largest value of the group. The errors of
``torch._scaled_mm`` without ``use_fast_accum`` show that it does the same on Hopper with groups of 128.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from warpwise.gemm.cases import CASES, TIMED, product_cases
from warpwise.gemm.operands import check_depth
from warpwise.gemm.precision import planned_product
from warpwise.operation import Case, Cost, Output, Spec, check_tensor, draw

DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
STEP = 32  # products that tensor cores align to each other
TRUNCATED = 2.0**-14  # the mean truncation error relative to the largest of them
FLOAT32 = 2.0**-24


def check(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    check_tensor("scaled_matmul", "a", a, DTYPES, dims=(2,))
    check_tensor("scaled_matmul", "b", b, DTYPES, dims=(2,))
    if a.dtype == b.dtype == torch.float8_e5m2:
        raise TypeError("scaled_matmul: expected a or b of dtype torch.float8_e4m3fn, got torch.float8_e5m2 twice")
    check_depth("scaled_matmul", a, b)
    for name, value in (("scale_a", scale_a), ("scale_b", scale_b)):
        check_tensor("scaled_matmul", name, value, (torch.float32,))
    for name, value in (("b", b), ("scale_a", scale_a), ("scale_b", scale_b)):
        if value.device != a.device:
            raise ValueError(f"scaled_matmul: expected {name} on a's device {a.device}, got {value.device}")
    rows, columns = (a.shape[0], 1), (1, b.shape[1])
    whole = all(value.shape in ((), (1,)) for value in (scale_a, scale_b))
    if not whole and (scale_a.shape != rows or scale_b.shape != columns):
        raise ValueError(
            f"scaled_matmul: expected scale_a and scale_b of shape () or (1,), "
            f"or scale_a {rows} and scale_b {columns}, "
            f"got {tuple(scale_a.shape)} and {tuple(scale_b.shape)}"
        )


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """a in ``dtype``, b in e4m3 and column-major, as a transposed weight; "by_row": a scale for each row."""
    m, n, k = (case.sizes[name] for name in ("m", "n", "k"))
    by_row = case.attributes.get("by_row", False)
    return {
        "a": _fp8(case, (m, k), dtype, device, 4 * seed),
        "b": _fp8(case, (n, k), torch.float8_e4m3fn, device, 4 * seed + 1).t(),
        "scale_a": draw((m, 1) if by_row else (1,), torch.float32, device, 4 * seed + 2),
        "scale_b": draw((1, n) if by_row else (1,), torch.float32, device, 4 * seed + 3),
    }


def _fp8(case: Case, shape: tuple[int, int], dtype: torch.dtype, device: torch.device, seed: int) -> torch.Tensor:
    """Standard normal; huge: up to the dtype's largest value, which a tensor's largest element is scaled to."""
    values = draw(shape, torch.float32, device, seed)
    top = torch.finfo(dtype).max
    if case.values == "huge":
        values = values.mul_(top / 2).clamp_(-top, top)
    return values.to(dtype)


def reference(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    return (a.double() * scale_a.double()) @ (b.double() * scale_b.double())


def magnitude(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    """The sum of absolute products, rounded as float32, and the truncation error in units of float32's rounding.

    The largest of 32 products is at most their Euclidean norm, and over all steps of a sum that norm has the root mean
    square ``sqrt(32 / k) * |products|``.
    """
    left, right = a.double() * scale_a.double(), b.double() * scale_b.double()
    norm = (left.square() @ right.square()).sqrt()
    step = math.sqrt(min(1.0, STEP / max(1, a.shape[1])))
    return left.abs() @ right.abs() + TRUNCATED / FLOAT32 * step * norm


def eager(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    """torch._scaled_mm, on a GPU cuBLAS, with float32 sums; float32 operands for sizes that it does not take."""
    return _scaled_mm(a, b, scale_a, scale_b, fast=False)


def fast_accumulation(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    """torch._scaled_mm with ``use_fast_accum``: sums stay in the tensor cores, see the docstring above."""
    return _scaled_mm(a, b, scale_a, scale_b, fast=True)


def _scaled_mm(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, fast: bool
) -> torch.Tensor:
    if not _taken(a, b):
        left, right = a.float() * scale_a, b.float() * scale_b
        return (left.double() @ right.double()).to(torch.bfloat16)
    return torch._scaled_mm(
        _aligned(a),
        _aligned(b.t()).t(),
        scale_a.contiguous(),
        scale_b.contiguous(),
        out_dtype=torch.bfloat16,
        use_fast_accum=fast,
    )


def _taken(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if torch._scaled_mm takes these sizes."""
    (m, k), n = a.shape, b.shape[1]
    return a.is_cuda and k % 16 == 0 and n % 16 == 0 and 0 not in (m, n, k)


def eager_plan(*args: torch.Tensor) -> Callable[..., torch.Tensor]:
    """A plan that only calls cuBLAS, if no operand must be copied."""
    a, b, *scales = args
    lines = a, b.t()
    as_they_are = _taken(a, b) and all(_aligned(matrix) is matrix for matrix in lines)
    if as_they_are and all(scale.is_contiguous() for scale in scales):
        return planned_product(_cublas, a, "_scaled_mm")
    return eager


def _cublas(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    return torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=torch.bfloat16)


def _aligned(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` with contiguous rows that begin on 16 bytes."""
    matrix = matrix.contiguous()
    return matrix if torch.compiler.is_compiling() or matrix.data_ptr() % 16 == 0 else matrix.clone()


def cost(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> Cost:
    (m, k), n = a.shape, b.shape[1]
    scales = (scale_a.numel() + scale_b.numel()) * 4
    return Cost(bytes=m * k + k * n + 2 * m * n + scales, flops=2 * m * n * k)


BY_ROW = {"by_row": True}
OUTPUT = Output(
    shape=lambda a, b, scale_a, scale_b: (a.shape[0], b.shape[1]),
    dtype=torch.bfloat16,
    terms=lambda a, b, scale_a, scale_b: a.shape[1],
    magnitude=magnitude,
)
SPEC = Spec(
    schema="scaled_matmul(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b) -> Tensor",
    summary="the product of two fp8 matrices and their scales, bfloat16, accumulated in float32",
    outputs={"output": OUTPUT},
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    eager_plan=eager_plan,
    cost=cost,
    cases=product_cases(
        {
            **CASES,
            "square_by_row": (64, 64, 64),
            "ragged_by_row": (29, 35, 71),
            "several_tiles": (130, 272, 144),
            "one_row": (1, 72, 32),
            "huge": (20, 24, 48),
        },
        {
            name: BY_ROW
            for name in ("square_by_row", "ragged_by_row", "several_tiles", "one_row", "one_element", "unaligned")
        },
    ),
    sizes=product_cases(
        {
            **{name: TIMED[name] for name in ("square", "small", "large")},
            "square_by_row": TIMED["square"],
            "large_by_row": TIMED["large"],
            "shallow": (8192, 8192, 512),
            "projection": (4096, 14336, 4096),
            "back_projection": (4096, 4096, 14336),
            "ragged": (4095, 4080, 4080),
        },
        dict.fromkeys(("square_by_row", "large_by_row", "projection", "back_projection"), BY_ROW),
    ),
    dtypes=DTYPES,
    opponents={"cuBLAS, fast accumulation": fast_accumulation},
    vendor="cuBLAS",
)  # fmt: skip
