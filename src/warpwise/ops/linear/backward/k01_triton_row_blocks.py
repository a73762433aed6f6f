"""Each program processes a block of rows, so all SMs have loads in flight; a second kernel adds the blocks' sums.

The partial sums of columns are (row_blocks, n) float32: a few percent of the traffic of the tensors.
"""

import math

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm import partial_sums
from warpwise.operation import cdiv, sm_count
from warpwise.triton.lib import activation_backward


@wt.jit
def activation_backward_row_blocks(
    grad_ptr,
    before_ptr,
    result_ptr,
    partial_ptr,
    m,
    n,
    steps,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """grad, before, result: (m, n); partial: (row_blocks, n), float32. A row block is `steps` tiles
    of BLOCK_M rows.

    Grid: (cdiv(n, BLOCK_N), row_blocks) programs.
    """
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)  # reduced over rows once, at the end
    for step in range(steps):  # row indices may exceed 2^31
        rows = (tl.program_id(1).to(tl.int64) * steps + step) * BLOCK_M + tl.arange(0, BLOCK_M)
        inside = (rows[:, None] < m) & (columns[None, :] < n)
        offsets = rows[:, None] * n + columns[None, :]
        gradient = tl.load(grad_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        before = tl.load(before_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        gradient = activation_backward(gradient, before, ACTIVATION)
        tl.store(result_ptr + offsets, gradient.to(result_ptr.dtype.element_ty), mask=inside)
        sums += gradient
    tl.store(partial_ptr + tl.program_id(1).to(tl.int64) * n + columns, tl.sum(sums, 0), mask=columns < n)


ROWS, COLUMNS = 16, 128  # of the block of a program
ROW_BLOCKS_PER_SM = 8  # resident programs of 4 warps


def launch(
    outputs: tuple[torch.Tensor, torch.Tensor], grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str
) -> None:
    result, bias = outputs
    n = grad_output.shape[-1]
    m = math.prod(grad_output.shape[:-1])
    wanted = cdiv(ROW_BLOCKS_PER_SM * sm_count(grad_output), cdiv(n, COLUMNS))
    tiles = max(1, cdiv(m, ROWS))  # at least one, which stores sums of 0 if there are no rows
    steps = cdiv(tiles, min(wanted, 65535))
    row_blocks = cdiv(tiles, steps)
    partial = torch.empty((row_blocks, n), dtype=torch.float32, device=grad_output.device)
    activation_backward_row_blocks[(cdiv(n, COLUMNS), row_blocks)](
        *(grad_output, preactivation, result, partial, m, n, steps),
        ACTIVATION=activation,
        BLOCK_M=ROWS,
        BLOCK_N=COLUMNS,
        num_warps=4,
    )
    partial_sums.add(partial, bias)
