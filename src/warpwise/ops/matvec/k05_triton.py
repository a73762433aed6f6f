"""Triton, for either layout of the matrix: products are accumulated in a 2-D tile and reduced once at the end."""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv


@wt.jit
def matvec_tiled(a_ptr, x_ptr, y_ptr, m, k, row_stride, column_stride, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """a: (m, k) with any strides, in elements; x: (k,); y: (m,). Grid: cdiv(m, BLOCK_M) programs."""
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = tl.arange(0, BLOCK_K).to(tl.int64)
    inside = rows[:, None] < m
    a_from = a_ptr + rows[:, None] * row_stride + columns[None, :] * column_stride
    sums = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    for first in range(0, k, BLOCK_K):
        valid = first + columns < k
        a = tl.load(a_from, mask=inside & valid[None, :], other=0.0).to(tl.float32)
        x = tl.load(x_ptr + first + columns, mask=valid, other=0.0).to(tl.float32)
        sums += a * x[None, :]
        a_from += BLOCK_K * tl.cast(column_stride, tl.int64)
    tl.store(y_ptr + rows, tl.sum(sums, axis=1).to(y_ptr.dtype.element_ty), mask=rows < m)


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    m, k = a.shape
    block_m, block_k = (128, 32) if a.stride(0) == 1 and m > 1 else (8, 512)
    grid = (cdiv(m, block_m),)
    matvec_tiled[grid](a, x.contiguous(), y, m, k, *a.stride(), BLOCK_M=block_m, BLOCK_K=block_k, num_warps=4)
