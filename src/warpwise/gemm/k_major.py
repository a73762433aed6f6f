"""int8 products by wgmma, which reads only K-major 1-byte operands: the transposes and the launch."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.limits import GRID_Y, hopper_limits
from warpwise.gemm.operands import flags, on_16_bytes
from warpwise.operation import cdiv, sm_count

TRANSPOSE = cuda.load(Path(cuda.__file__).parent / "include/warpwise/core/gemm_transpose.cuh")
INT8 = GemmConfig.parse("128x256x128_s4_c2x1")


def transposed(matrix: torch.Tensor) -> torch.Tensor:
    """The contiguous transpose of a contiguous matrix of bytes with sizes in multiples of 4."""
    rows, columns = matrix.shape
    result = matrix.new_empty((columns, rows))
    words, to = matrix.view(torch.int32), result.view(torch.int32)
    TRANSPOSE["transpose_bytes"][(cdiv(columns, 128), cdiv(rows, 128)), (32, 8)](words, cuda.out(to), rows, columns)
    return result


def transposed_words(lines: torch.Tensor, side: int = 32) -> torch.Tensor:
    """The transpose of ``lines`` (rows, columns), float32 with contiguous rows, in rows that begin on 128 bytes.

    ``side``: of a block's tile.
    """
    rows, columns = lines.shape
    to = lines.new_empty((columns, cdiv(rows, 32) * 32))
    TRANSPOSE[f"transpose_words<{side}>"][cdiv(rows, side) * cdiv(columns, side), (32, 8)](
        cuda.strided(lines), lines.stride(0), cuda.strided(to), to.shape[1], rows, columns
    )
    return to[:, :rows]


def launch_clusters(module: cuda.Module, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """Launch the kernel of k19 of matmul, for K-major a (M, K) and b (N, K), in clusters of two blocks."""
    (m, k), n = a.shape, b.shape[0]
    pairs, columns = INT8.tiles(m, n)
    clusters = min(pairs * columns, max(1, sm_count(a) // 2))
    by_tma = on_16_bytes(c)
    map_a, map_b = (cuda.tensor_map(operand, (128, 128)) for operand in (a, b))
    map_c, rows = (cuda.tensor_map(c, (64, 32)), None) if by_tma else (map_a, cuda.out(c))
    kernel = module[f"matmul_warpgroups_int8<{flags(by_tma)}>"]
    kernel[INT8.launch(clusters)](map_a, map_b, map_c, rows, m, n, k, pairs, columns, 8)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits: a Hopper GPU, and the grid of the transposing kernel."""
    if (longest := max(a.shape)) > 32 * GRID_Y:
        return f"takes m and k up to {32 * GRID_Y} (the transposing kernel's grid.y is 16 bits), not {longest}"
    return hopper_limits(a, b)
