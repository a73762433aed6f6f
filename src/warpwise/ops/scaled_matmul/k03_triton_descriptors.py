"""Persistent programs in Triton: boxes by TMA, and k-tiles of the next tile loaded during the epilogue.

No thread computes addresses or masks of A, B or C; elements past an edge are read as zero and not written.
``flatten`` fuses the loops over tiles and k-tiles, so the pipeline is filled once.
"""

import torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from warpwise import triton as wt
from warpwise.operation import cdiv, sm_count
from warpwise.ops.scaled_matmul._operands import aligned, contiguous_operands, contiguous_scales, tile_of
from warpwise.triton import lib


@wt.jit
def scaled_matmul_descriptors(
    a,
    b,
    c,
    scale_a_ptr,
    scale_b_ptr,
    m,
    n,
    k,
    programs,
    BY_ROW: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """a: (m, k), b: (n, k), c: (m, n), descriptors with boxes of (BLOCK_M, BLOCK_K), (BLOCK_N, BLOCK_K),
    (BLOCK_M, BLOCK_N).

    Scales: one each, or (m,) and (n,) if BY_ROW. Grid: ``programs``, each of which computes every programs-th tile.
    """
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, programs, flatten=True):
        tile_m, tile_n = lib.tile_index(tile, tiles_m, tiles_n, GROUP)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for first in range(0, k, BLOCK_K):
            accumulator = tl.dot(
                a.load([row, first]), b.load([column, first]).T, accumulator, max_num_imprecise_acc=BLOCK_K
            )
        if BY_ROW:
            rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
            column_scales = tl.load(scale_b_ptr + columns, mask=columns < n, other=0.0)
            accumulator *= tl.load(scale_a_ptr + rows, mask=rows < m, other=0.0)[:, None] * column_scales[None, :]
        else:
            accumulator *= tl.load(scale_a_ptr) * tl.load(scale_b_ptr)
        c.store([row, column], accumulator.to(tl.bfloat16))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    left, right = (aligned(operand) for operand in contiguous_operands(a, b))
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    (m, k), n = left.shape, right.shape[0]
    tile = tile_of(a, b)
    programs = min(sm_count(a), cdiv(m, tile.m) * cdiv(n, tile.n))
    boxes = [tile.m, tile.k], [tile.n, tile.k], [tile.m, tile.n]
    maps = [TensorDescriptor.from_tensor(matrix, box) for matrix, box in zip((left, right, c), boxes, strict=True)]
    scaled_matmul_descriptors[(programs,)](
        *maps[:2], wt.out(maps[2]), scale_a, scale_b, m, n, k, programs, BY_ROW=by_row, GROUP=8, **tile.triton
    )
