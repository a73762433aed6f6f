"""The ladder of addmm, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm import boxes
from warpwise.gemm.default import default_of
from warpwise.gemm.fused import problem as fused
from warpwise.gemm.fused.problem import Operands, Problem, warpgroup_limit
from warpwise.gemm.limits import rows_limit
from warpwise.gemm.operands import KERNEL_DTYPES, sizes
from warpwise.operation import cdiv, make_rung
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")


def problem(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> Problem:
    """The arguments of the fused rungs: the input expanded to the result's shape, or None if ``beta`` is 0."""
    source = input.expand(result.shape) if beta != 0 else None
    return Problem(a, b, result, source=source, alpha=alpha, beta=beta)


def operands(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> Operands:
    return a, b


def grid_of_elements(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return rows_limit(*sizes(a, b), rows=8)


def warpgroup_limits(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> str | None:
    """The limits: a Hopper GPU, operands that TMA can address, and an input that is a row, or a matrix for TMA."""
    if reason := warpgroup_limit(a, b, ("a", "b", "n")):
        return reason
    whole = input.shape == sizes(a, b)[:2] and boxes.row_major_by_tma(input)
    row = input.dim() > 0 and input.numel() == input.shape[-1] == b.shape[1] and input.is_contiguous()
    if beta == 0 or row or whole:
        return None
    return "takes an input that is a row, or a matrix whose rows begin on 16 bytes"


def thread_per_element(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> None:
    m, n, k = sizes(a, b)
    c = input.expand(result.shape)
    kernel = THREAD_PER_ELEMENT[f"addmm_thread_per_element<{cuda.ctype(a.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](
        *(cuda.strided(a), cuda.strided(b), cuda.strided(c), cuda.out(result), m, n, k, alpha, beta),
        *(*a.stride(), *b.stride(), *c.stride()),
    )


RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per element, which adds the input before the store",
              thread_per_element, dtypes=KERNEL_DTYPES, limits=grid_of_elements, strided=True),
    *fused.rungs(problem, operands, warpgroup_limits, MATMUL),
)  # fmt: skip

default = default_of(RUNGS, "k05_warpgroups", "k02_triton_pass", "k06_cluster_split_k", operands=operands)
