"""Boxes of both operands by TMA, which reads the rows before a group as zero.

TMA clips boxes at the bounds of the descriptor, which does not contain the bounds of groups. Therefore both operands
are described as (rows, rows, columns) with two equal strides: element (x, y, j) is element j of row x + y. If x is the
group's first row, y counts rows of the group, and y < 0 is out of bounds. The last k-tile ends at the end of the group;
the first may begin before the group and reads zeros there from both operands, so no mask is needed.
"""

from typing import Any

import torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from warpwise import triton as wt
from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.operation import cdiv
from warpwise.ops.grouped_matmul.backward._triton import descriptors_configs
from warpwise.triton import lib


@wt.jit
def grouped_matmul_backward_descriptors(
    a,
    grad,
    ends_ptr,
    result,
    rows,
    n,
    k,
    groups,
    programs,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Descriptors of a: (rows, rows, k) and grad: (rows, rows, n) as above; result: (groups, k, n), in boxes of half
    a tile.

    Grid: ``programs``, each of which computes every programs-th tile, of any group.
    """
    half: tl.constexpr = BLOCK_N // 2
    tiles_m, tiles_n = tl.cdiv(k, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), groups * tiles_m * tiles_n, programs):
        group = tile // (tiles_m * tiles_n)
        tile_m, tile_n = lib.tile_index(tile % (tiles_m * tiles_n), tiles_m, tiles_n, GROUP)
        line, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        start = tl.maximum(tl.load(ends_ptr + group - 1, mask=group > 0, other=0), 0)
        end = tl.minimum(tl.load(ends_ptr + group), rows)
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        k_tiles = tl.cdiv(tl.maximum(end - start, 0), BLOCK_K)
        for row in range(end - start - k_tiles * BLOCK_K, end - start, BLOCK_K):
            a_tile = a.load([start, row, line]).reshape(BLOCK_K, BLOCK_M).T
            accumulator = tl.dot(a_tile, grad.load([start, row, column]).reshape(BLOCK_K, BLOCK_N), accumulator)
        halves = tl.permute(tl.reshape(accumulator, (BLOCK_M, 2, half)), (0, 2, 1))
        left, right = tl.split(halves)
        result.store([group, line, column], left.to(result.dtype).reshape(1, BLOCK_M, half))
        result.store([group, line, column + half], right.to(result.dtype).reshape(1, BLOCK_M, half))


def launch(
    result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor, config: str | None = None
) -> None:
    def shifted(matrix: torch.Tensor, rows: int, columns: int) -> Any:
        """(rows, rows, columns) whose element (x, y, j) is in row x + y, in boxes that read as zero before row x."""
        (height, width), pitch = matrix.shape, matrix.stride(0)
        return TensorDescriptor(matrix, [height, height, width], [pitch, pitch, 1], [1, rows, columns])

    tile = GemmConfig.parse(config or descriptors_configs(a, grad_output, offsets)[0])
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]
    programs = boxes.programs(tile, groups * cdiv(k, tile.m) * cdiv(n, tile.n), a)
    to = wt.out(boxes.descriptor(result, (tile.m, tile.n // 2)))
    grouped_matmul_backward_descriptors[(programs,)](
        *(shifted(a, tile.k, tile.m), shifted(grad_output, tile.k, tile.n), offsets.contiguous(), to),
        *(rows, n, k, groups, programs),
        GROUP=8,
        **tile.triton,
    )
