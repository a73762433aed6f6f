"""What the launchers of scaled_matmul share: factors with K along contiguous rows, scales, sizes and limits."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv

HERE = Path(__file__).parent
ROWS = cuda.load(HERE / "pad_rows.cu")
SIDE = 2**31 - 1024  # row, column and depth are 32 bits, and reach up to a tile past the end
ROW_BYTES = 16  # what rows of a tensor map must be a multiple of


def deep(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` (rows, K) with K along contiguous rows: itself, or a copy."""
    return matrix.contiguous()


def factors(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """a as (M, K) and b as (N, K), both contiguous: no copies where a is row-major and b column-major."""
    return deep(a), deep(b.t())


def scales(scale_a: torch.Tensor, scale_b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Both contiguous, and whether there is one for each row of a and column of b."""
    return scale_a.contiguous(), scale_b.contiguous(), scale_a.dim() == 2


def too_large(a: torch.Tensor, b: torch.Tensor) -> str | None:
    for name, size in (("m", a.shape[0]), ("n", b.shape[1]), ("k", a.shape[1])):
        if size > SIDE:
            return f"takes sizes up to {SIDE}, not {name} = {size}"
    return None


def hints(m: int, n: int, k: int) -> int:
    """What L2 is told (policies.cuh): both factors leave it first, unless they are smaller than the result that passes by."""
    return 5 if (m + n) * k >= 2 * m * n else 0


def copy_engine(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """Why the copy engine cannot address rows of the factors and of the result, or None.

    A factor that begins elsewhere than on 16 bytes, or whose rows do not lie side by side, is copied first.
    """
    k, n = a.shape[1], b.shape[1]
    if k % ROW_BYTES or n % (ROW_BYTES // 2):
        return (
            f"takes k in multiples of 16 and n in multiples of 8, whose rows begin on 16 bytes, not k = {k} and n = {n}"
        )
    return too_large(a, b)


def aligned(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix``, contiguous, beginning on 16 bytes: itself or a copy."""
    return matrix if matrix.data_ptr() % ROW_BYTES == 0 else matrix.clone()


def padded(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two contiguous matrices of K columns as the copy engine reads them: themselves, or copies with zeros past K."""
    (m, k), n = left.shape, right.shape[0]
    left, right = aligned(left), aligned(right)
    if k % ROW_BYTES == 0:
        return left, right
    pitch = cdiv(k, ROW_BYTES) * ROW_BYTES
    to_left, to_right = (matrix.new_empty((matrix.shape[0], pitch)) for matrix in (left, right))
    across = min(256, cdiv(pitch, 512) * 32)  # threads of a row, 16 bytes each
    block = across, 256 // across
    words = [matrix.view(torch.uint8) for matrix in (left, right, to_left, to_right)]
    ROWS["pad_rows"][cdiv(m + n, block[1]), block](*words[:2], *map(cuda.out, words[2:]), m, n, k, pitch)
    return to_left, to_right


def copy_rows(source: torch.Tensor, target: torch.Tensor) -> None:
    """Fill ``target`` (rows, columns) with the first columns of ``source``, whose rows may be longer, or shorter."""
    (rows, pitch), (_, to_pitch) = source.shape, target.shape
    columns = min(pitch, to_pitch)
    kernel = ROWS[f"copy_rows<{cuda.ctype(source.dtype)}>"]
    filled = cuda.out(target) if columns == to_pitch else target
    kernel[rows, 256](source, filled, rows, columns, pitch, to_pitch)
