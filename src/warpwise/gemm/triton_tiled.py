"""GEMM in Triton by masked loads, in any layout: each program computes one tile of C.

A program's tile is of one matrix of a batch, of one split of K, or of one group of A's rows. Matrices follow each
other, so few of them are in flight and stay in L2; tiles of a matrix are in grouped raster order, in which the tiles in
flight share GROUP tile rows of A and few tile columns of B; the splits of a tile are neighbours.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import Shape
from warpwise.operation import cdiv
from warpwise.triton import lib


@wt.jit
def gemm_tiled(
    a_ptr,
    b_ptr,
    c_ptr,
    ends_ptr,
    scale_a_ptr,
    scale_b_ptr,
    m,
    n,
    k,
    a_matrix,
    a_row,
    a_column,
    b_matrix,
    b_row,
    b_column,
    splits,
    groups,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
    BATCHED: tl.constexpr,
    BY_ROW: tl.constexpr,
    BF16X3: tl.constexpr,
    UNITS: tl.constexpr,
):
    """a: (batch, m, k), b: (batch, k, n), with strides of matrix, row and column; c: (batch, m, n), or (splits,
    m, n) the sums of each split of K, row-major. ends: None, or (batch,), the end of each matrix in K: a (m, k) and b
    (k, n) then hold all matrices, each of which begins in K where the one before ends. scale_a, scale_b: float32, one
    each, or (m,) and (n,) if BY_ROW, or None. Grid: batch * cdiv(m, BLOCK_M) * cdiv(n, BLOCK_N) * splits programs.
    Splits differ by at most one k-tile.

    GROUPS, a power of two above ``groups``, or 0: ends: (groups,), where each group of rows of a: (m, k) and of c: (m,
    n) ends; b: (groups, k, n). Rows past the last end are zero. Grid: (cdiv(m, BLOCK_M) + groups + 1) * cdiv(n,
    BLOCK_N) * splits programs, the most that any ends need; a program finds its group, or writes nothing.

    The caller passes n, k and each stride divided by a number of elements, one byte each of ``UNITS``; the kernel
    multiplies them again, so the compiler knows this divisor. Triton itself recognises only arguments that are
    multiples of 16: without the divisor, rows that begin on multiples of 8 elements would be loaded element by element.
    """
    n, k, a_matrix = n * (UNITS & 255), k * (UNITS >> 8 & 255), a_matrix * (UNITS >> 16 & 255)
    a_row, a_column = a_row * (UNITS >> 24 & 255), a_column * (UNITS >> 32 & 255)
    b_matrix, b_row, b_column = b_matrix * (UNITS >> 40 & 255), b_row * (UNITS >> 48 & 255), b_column * (UNITS >> 56)
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    split, tile = (tl.program_id(0) % splits).to(tl.int64), tl.program_id(0) // splits
    if GROUPS > 0:
        starts, group_ends, tiles, before = heights(ends_ptr, groups, m, BLOCK_M, GROUPS)
        tile_m, tile_n = tile // tiles_n, tile % tiles_n
        is_own = (before <= tile_m) & (tile_m < before + tiles)
        matrix = at(is_own, tl.arange(0, GROUPS)).to(tl.int64)
        first_row = at(is_own, starts) + (tile_m - at(is_own, before)) * BLOCK_M
        end_row = at(is_own, group_ends)  # 0 if there is no tile
    else:
        matrix = (tile // (tiles_m * tiles_n)).to(tl.int64) if BATCHED else 0
        tile_m, tile_n = lib.tile_index(tile % (tiles_m * tiles_n) if BATCHED else tile, tiles_m, tiles_n, GROUP)
        first_row, end_row = tile_m * BLOCK_M, m
    if ends_ptr is not None and GROUPS == 0:
        begin = tl.maximum(tl.load(ends_ptr + matrix - 1, mask=matrix > 0, other=0), 0)
        end = tl.minimum(tl.load(ends_ptr + matrix), k)
    else:
        k_tiles = tl.cdiv(k, BLOCK_K)
        begin = (k_tiles * split // splits * BLOCK_K).to(tl.int32)
        end = tl.minimum(k, (k_tiles * (split + 1) // splits * BLOCK_K).to(tl.int32))
        if GROUPS > 0:
            end = tl.where(matrix < groups, end, begin)  # rows past the last end have no matrix

    rows = (first_row + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    k_offsets = tl.arange(0, BLOCK_K)
    k_indices = begin + k_offsets.to(tl.int64)
    row_mask, column_mask = rows[:, None] < end_row, columns[None, :] < n
    a_ptrs = a_ptr + matrix * a_matrix + rows[:, None] * a_row + k_indices[None, :] * a_column
    b_ptrs = b_ptr + matrix * b_matrix + k_indices[:, None] * b_row + columns[None, :] * b_column

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first in range(begin, end, BLOCK_K):
        left = end - first
        a = tl.load(a_ptrs, mask=row_mask & (k_offsets[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(k_offsets[:, None] < left) & column_mask, other=0.0)
        if BF16X3:
            accumulator += dot_bf16x3(a, b)
        else:  # "ieee": the default for float32 is TF32. Imprecise: wgmma sums fp8 with 13 bits after the binary point.
            accumulator = tl.dot(a, b, accumulator, input_precision="ieee", max_num_imprecise_acc=BLOCK_K)
        a_ptrs += BLOCK_K * tl.cast(a_column, tl.int64)
        b_ptrs += BLOCK_K * tl.cast(b_row, tl.int64)
    if scale_a_ptr is not None and BY_ROW:
        column_scales = tl.load(scale_b_ptr + columns, mask=columns < n, other=0.0)
        accumulator *= tl.load(scale_a_ptr + rows, mask=rows < m, other=0.0)[:, None] * column_scales[None, :]
    elif scale_a_ptr is not None:
        accumulator *= tl.load(scale_a_ptr) * tl.load(scale_b_ptr)
    c_row = (split if GROUPS > 0 else matrix + split) * m + rows
    to = c_ptr + c_row[:, None] * n + columns[None, :]
    tl.store(to, accumulator.to(c_ptr.dtype.element_ty), mask=row_mask & column_mask)


@wt.jit
def heights(ends_ptr, groups, rows, BLOCK_M: tl.constexpr, GROUPS: tl.constexpr):
    """For each group its first row, its end, its number of tiles of BLOCK_M rows, and the number of tiles before it.

    All are (GROUPS,), a power of two above ``groups``. The rows past the last end are one more group, number
    ``groups``. An end beyond ``rows`` is replaced by ``rows``, so that wrong ends cause no access out of bounds.
    """
    index = tl.arange(0, GROUPS)
    ends = tl.load(ends_ptr + index, mask=index < groups, other=0)
    starts = tl.load(ends_ptr + index - 1, mask=(index > 0) & (index <= groups), other=0)
    ends = tl.where(index < groups, tl.minimum(tl.maximum(ends, 0), rows), tl.where(index == groups, rows, 0))
    starts = tl.minimum(tl.maximum(starts, 0), rows)
    tiles = tl.cdiv(tl.maximum(ends - starts, 0), BLOCK_M)
    return starts, ends, tiles, tl.cumsum(tiles) - tiles


@wt.jit
def at(mine, values):
    """The element of ``values`` at which ``mine`` is true; 0 if it is nowhere true."""
    return tl.sum(tl.where(mine, values, 0))


@wt.jit
def dot_bf16x3(a, b):
    """a b for float32 tiles, by six products of bfloat16 terms, the smallest first."""
    a_high, a_middle, a_low = split_bf16x3(a)
    b_high, b_middle, b_low = split_bf16x3(b)
    sums = tl.dot(a_low, b_high)
    sums = tl.dot(a_high, b_low, sums)
    sums = tl.dot(a_middle, b_middle, sums)
    sums = tl.dot(a_middle, b_high, sums)
    sums = tl.dot(a_high, b_middle, sums)
    return tl.dot(a_high, b_high, sums)


@wt.jit
def split_bf16x3(x):
    """Three bfloat16 terms of float32 x, each truncated to 8 bits of mantissa: rounding could overflow to infinity."""
    high = (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)
    middle = ((x - high).to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)
    low = x - high - middle
    return high.to(tl.bfloat16), middle.to(tl.bfloat16), low.to(tl.bfloat16)


Optional = torch.Tensor | None


def launch(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, tile: GemmConfig, *, ends: Optional = None,
    scales: tuple[Optional, Optional] = (None, None), bf16x3: bool = False,
) -> None:  # fmt: skip
    """c = a b for matrices or batches; with splits of K, c (splits, m, n) receives their sums. ``scales``: contiguous,
    see ``gemm_tiled``. ``ends``, contiguous: of K for c (matrices, m, n), of rows if b has three dimensions."""
    batch, m, n, k = Shape.of(a, b) if ends is None else Shape(c.shape[0], c.shape[-2], c.shape[-1], a.shape[1])
    tiles_m, groups, padded_groups = cdiv(m, tile.m), 0, 0
    by_rows = ends is not None and b.dim() == 3
    if ends is not None and by_rows:
        batch, groups = 1, ends.shape[0]
        tiles_m, padded_groups = tiles_m + groups + 1, 1 << groups.bit_length()
    by_row = scales[0] is not None and scales[0].dim() == 2
    steps, vector = (n, k, *_strides(a), *_strides(b)), 16 // a.element_size()
    units = tuple(vector if step % vector == 0 and step < 2**31 else 1 for step in steps)
    gemm_tiled[(batch * tiles_m * cdiv(n, tile.n) * tile.splits,)](
        *(a, b, c, ends, *scales, m, *(step // unit for step, unit in zip(steps, units, strict=True))),
        *(tile.splits, groups),
        GROUP=8,
        GROUPS=padded_groups,
        BATCHED=batch > 1 or (ends is not None and not by_rows),
        BY_ROW=by_row,
        BF16X3=bf16x3,
        UNITS=int.from_bytes(bytes(units), "little"),  # replays take numbers
        **tile.triton,
    )


def _strides(matrices: torch.Tensor) -> tuple[int, int, int]:
    """The strides of matrices, rows and columns in elements; 0 for matrices if the operand has 2 dimensions."""
    across, along = matrices.stride()[-2:]
    return matrices.stride(0) if matrices.dim() == 3 else 0, across, along
