"""The fastest matmul, then one pass that scales, adds, activates and adds: one read and one write per element.

The matmul rounds its result to the output type, so this rung is for float32 only, where that is the type of the sums.
"""

from typing import Any

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv
from warpwise.ops.linear.forward._shared import Outputs, layer
from warpwise.ops.matmul.op import MATMUL
from warpwise.triton.lib import epilogue


@wt.jit
def linear_pass(
    product_ptr,
    y_ptr,
    before_ptr,
    bias_ptr,
    residual_ptr,
    scale_ptr,
    m,
    n,
    residual_row,
    residual_column,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """product, y, before: (m, n), contiguous; the others as in `epilogue`.

    Grid: (cdiv(n, BLOCK_N), cdiv(m, BLOCK_M)) programs.
    """
    rows = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    offsets = rows[:, None] * n + columns[None, :]
    sums = tl.load(product_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    before, y = epilogue(sums, rows, columns, m, n, bias_ptr, scale_ptr, ACTIVATION)
    if residual_ptr is not None:
        residual_ptrs = residual_ptr + rows[:, None] * residual_row + columns[None, :].to(tl.int64) * residual_column
        y += tl.load(residual_ptrs, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=inside)
    if before_ptr is not None:
        tl.store(before_ptr + offsets, before.to(before_ptr.dtype.element_ty), mask=inside)


def launch(outputs: Outputs, *args: Any) -> None:
    x, w, bias, activation, residual, scale, y, preactivation = layer(outputs, *args)
    alone = bias is activation is residual is scale is preactivation is None
    product = y if alone else torch.empty_like(y)
    filled = MATMUL.fill((product,), x, w.t())
    if not (alone and filled):
        product = product if filled else MATMUL.spec.eager(x, w.t())
        launch_pass(product, y, preactivation, bias, residual, scale, activation)


def launch_pass(
    product: torch.Tensor,
    y: torch.Tensor,
    preactivation: torch.Tensor | None,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    scale: torch.Tensor | None,
    activation: str | None,
) -> None:
    m, n = y.shape
    linear_pass[(cdiv(n, 128), cdiv(m, 16))](
        product,
        y,
        preactivation,
        bias,
        residual,
        scale,
        m,
        n,
        *((0, 0) if residual is None else residual.stride()),
        ACTIVATION=activation,
        BLOCK_M=16,
        BLOCK_N=128,
        num_warps=4,
    )
