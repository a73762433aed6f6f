"""The fastest matmul, then one pass that scales, adds, activates and adds: one read and one write per element.

The matmul rounds its result to the output type, so this rung is for float32 only, where that is the type of the sums.
"""

from typing import Any

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import Op, cdiv
from warpwise.triton.lib import apply_activation


@wt.jit
def gemm_pass(
    product_ptr,
    result_ptr,
    kept_ptr,
    bias_ptr,
    scale_ptr,
    source_ptr,
    m,
    n,
    source_row,
    source_column,
    alpha,
    beta,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """result = activation(alpha * scale * product + bias) + beta * source; kept: the activation's argument.

    product, result, kept: (m, n), contiguous; bias: (n,), scale: (m,), source: (m, n), strided. All but product and
    result, and alpha and beta, may be None. Grid: (cdiv(n, BLOCK_N), cdiv(m, BLOCK_M)) programs.
    """
    rows = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    offsets = rows[:, None] * n + columns[None, :]
    sums = tl.load(product_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    if alpha is not None:
        sums *= alpha
    if scale_ptr is not None:
        sums *= tl.load(scale_ptr + rows, mask=rows < m, other=0.0).to(tl.float32)[:, None]
    if bias_ptr is not None:
        sums += tl.load(bias_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)[None, :]
    if kept_ptr is not None:
        tl.store(kept_ptr + offsets, sums.to(kept_ptr.dtype.element_ty), mask=inside)
    result = apply_activation(sums, ACTIVATION)
    if source_ptr is not None:
        source_ptrs = source_ptr + rows[:, None] * source_row + columns[None, :].to(tl.int64) * source_column
        source = tl.load(source_ptrs, mask=inside, other=0.0).to(tl.float32)
        if beta is not None:
            source *= beta
        result += source
    tl.store(result_ptr + offsets, result.to(result_ptr.dtype.element_ty), mask=inside)


def launch(problem: Any, multiply: Op) -> None:
    """``multiply``: the operation that multiplies a and b."""
    a, b, result = problem[:3]
    alone = all(value is None for value in problem[3:])
    product = result if alone else torch.empty_like(result)
    filled = multiply.fill((product,), a, b)
    if not (alone and filled):
        launch_pass(product if filled else multiply.spec.eager(a, b), problem)


def launch_pass(product: torch.Tensor, problem: Any) -> None:
    _, _, result, kept, bias, scale, activation, source, alpha, beta = problem
    m, n = result.shape
    gemm_pass[(cdiv(n, 128), cdiv(m, 16))](
        *(product, result, kept, bias, scale, source, m, n, *problem.source_strides, alpha, beta),
        ACTIVATION=activation,
        BLOCK_M=16,
        BLOCK_N=128,
        num_warps=4,
    )
