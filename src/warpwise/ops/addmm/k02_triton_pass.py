"""The fastest matmul, and a second pass that scales and adds: three matrices of memory traffic after the matmul.

The matmul rounds its result to the output type, so this rung is for float32 only, where that is the type of the values.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv
from warpwise.ops.addmm._shared import broadcast
from warpwise.ops.matmul.op import MATMUL


@wt.jit
def addmm_pass(
    product_ptr,
    c_ptr,
    result_ptr,
    m,
    n,
    alpha,
    beta,
    c_row,
    c_column,
    ADDS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """product, result: (m, n), contiguous; c: (m, n), strided, read if ADDS.

    Grid: (cdiv(n, BLOCK_N), cdiv(m, BLOCK_M)) programs.
    """
    rows = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]
    inside = (rows < m) & (columns < n)
    values = alpha * tl.load(product_ptr + rows * n + columns, mask=inside, other=0.0).to(tl.float32)
    if ADDS:
        values += beta * tl.load(c_ptr + rows * c_row + columns * c_column, mask=inside, other=0.0).to(tl.float32)
    tl.store(result_ptr + rows * n + columns, values.to(result_ptr.dtype.element_ty), mask=inside)


def launch(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> None:
    product = torch.empty_like(result)
    if not MATMUL.fill((product,), a, b):
        product = MATMUL.spec.eager(a, b)
    launch_pass(product, input, result, beta, alpha)


def launch_pass(product: torch.Tensor, input: torch.Tensor, result: torch.Tensor, beta: float, alpha: float) -> None:
    m, n = result.shape
    addmm_pass[(cdiv(n, 128), cdiv(m, 16))](
        product,
        input,
        result,
        m,
        n,
        alpha,
        beta,
        *broadcast(input, result)[1:],
        ADDS=beta != 0,
        BLOCK_M=16,
        BLOCK_N=128,
        num_warps=4,
    )
