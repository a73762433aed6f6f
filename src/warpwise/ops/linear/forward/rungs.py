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
from warpwise.operation import Rung, cdiv, make_rung
from warpwise.ops._c import function
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent
THREADS = 256  # of a block
IN_C = function(HERE / "k04_c.c", "linear", 7 * "p" + "llll")
THREAD_PER_OUTPUT = cuda.load(HERE / "k05_thread_per_output.cu")
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
    return input.reshape(math.prod(input.shape[:-1]), weight.shape[1]), weight.t()


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
        "takes residual with contiguous rows" if boxes.is_transposed(rows) else None
    )


def _sizes(input: torch.Tensor, weight: torch.Tensor) -> tuple[int, int, int]:
    return math.prod(input.shape[:-1]), *weight.shape


def in_c(outputs: Outputs, *args: Any) -> None:
    input, weight, bias, activation, residual, row_scale, _ = args
    IN_C(input, weight, bias, residual, row_scale, *outputs, *_sizes(input, weight), activation_number(activation))


def thread_per_output(outputs: Outputs, *args: Any) -> None:
    input, weight, bias, activation, residual, row_scale, _ = args
    m, n, k = _sizes(input, weight)
    if m * n:
        to = (None if output is None else cuda.out(output) for output in outputs)
        kernel = THREAD_PER_OUTPUT[f"linear<{activation_number(activation)}>"][cdiv(m * n, THREADS), THREADS]
        kernel(input, weight, bias, residual, row_scale, *to, m, n, k)


RUNGS = (
    *fused.rungs(problem, operands, warpgroup_limits, MATMUL),
    Rung("k04_c", "the definition in C", "c", in_c, HERE / "k04_c.c", dtypes=(torch.float32,), devices=("cpu",)),
    make_rung(HERE, "k05_thread_per_output", "one thread per result", thread_per_output, dtypes=(torch.float32,)),
)  # fmt: skip

default = default_of(RUNGS, "k02_warpgroups", "k01_triton_pass", "k03_cluster_split_k", operands=operands)
