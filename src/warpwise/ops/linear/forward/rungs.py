"""The ladder of linear, slowest idea first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm import boxes
from warpwise.gemm.default import default_of
from warpwise.gemm.fused import activation_number
from warpwise.gemm.fused import problem as fused
from warpwise.gemm.fused.problem import Operands, Problem
from warpwise.gemm.limits import rows_limit
from warpwise.gemm.operands import KERNEL_DTYPES
from warpwise.operation import Rung, cdiv, make_rung
from warpwise.ops._c import function
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
IN_C = function(HERE / "k05_c.c", "linear", "pppppppllll")
Outputs = tuple[torch.Tensor, torch.Tensor | None]


def problem(outputs: Outputs, *args: Any) -> Problem:
    """Leading dimensions are flattened; vectors are made contiguous, and a matrix is copied only if it cannot be
    flattened in place."""
    output, preactivation = outputs
    bias, activation, residual, row_scale = args[2:6]
    x, w = operands(*args)
    m, n = x.shape[0], w.shape[1]
    residual = None if residual is None else residual.reshape(m, n)
    kept = None if preactivation is None else preactivation.view(m, n)
    bias = None if bias is None else bias.contiguous()
    row_scale = None if row_scale is None else row_scale.reshape(m).contiguous()
    return Problem(x, w, output.view(m, n), kept, bias, row_scale, activation, residual)


def operands(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> Operands:
    m, _, k = sizes(input, weight)
    return input.reshape(m, k), weight.t()


def sizes(input: torch.Tensor, weight: torch.Tensor) -> tuple[int, int, int]:
    return math.prod(input.shape[:-1]), weight.shape[0], weight.shape[1]


def grid_of_elements(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return rows_limit(*sizes(input, weight), rows=8)


def warpgroup_limits(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, activation: Any, residual: torch.Tensor | None, *rest: Any
) -> str | None:
    """The limits: a Hopper GPU, and matrices that TMA can address."""
    x, w = operands(input, weight)
    if reason := boxes.warpgroup_limit(x, w, ("input", "weight", "out_features")):
        return reason
    if residual is None:
        return None
    rows = residual.reshape(x.shape[0], w.shape[1])
    return boxes.tma_limit("residual", rows) or (
        "takes residual with contiguous rows" if boxes.transposed(rows) else None
    )


def thread_per_element(outputs: Outputs, *args: Any) -> None:
    x, w, y, preactivation, bias, scale, activation, residual, *_ = given = problem(outputs, *args)
    (m, n), k = y.shape, x.shape[1]
    kind = activation_number(activation)
    kernel = THREAD_PER_ELEMENT[f"linear_thread_per_element<{cuda.ctype(x.dtype)}, {kind}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](
        *(cuda.strided(x), cuda.strided(w.t()), bias, None if residual is None else cuda.strided(residual), scale),
        *(cuda.out(y), None if preactivation is None else cuda.out(preactivation), m, n, k),
        *(*x.stride(), *w.t().stride(), *given.source_strides),
    )


def in_c(outputs: Outputs, *args: Any) -> None:
    input, weight, bias, activation, residual, row_scale, _ = args
    IN_C(input, weight, bias, residual, row_scale, *outputs, *(sizes(input, weight)), activation_number(activation))


RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per element, with the epilogue before the store",
              thread_per_element, dtypes=KERNEL_DTYPES, limits=grid_of_elements, strided=True),
    *fused.rungs(problem, operands, warpgroup_limits, MATMUL),
    Rung("k05_c", "the definition in C", "c", in_c, HERE / "k05_c.c", dtypes=(torch.float32,), devices=("cpu",)),
)  # fmt: skip

default = default_of(RUNGS, "k03_warpgroups", "k02_triton_pass", "k04_cluster_split_k", operands=operands)
