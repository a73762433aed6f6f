"""What the launchers of scaled_matmul share: factors with K along contiguous rows, scales, sizes and limits."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.ops.matmul import _padded

HERE = Path(__file__).parent
SIDE = 2**31 - 1024  # row, column and depth are 32 bits, and reach up to a tile past the end
ROW_BYTES = 16  # what rows of a tensor map must be a multiple of
TURNED = 128 * 65535  # rows that what turns a factor takes


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


def along_k(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """a as (M, K) and b as (N, K), with K along rows that begin on 16 bytes: themselves, or copies."""
    if a.shape[1] == 0 or a.shape[1] > TURNED:
        left, right = factors(a, b)
        return aligned(left), aligned(right)
    left, right = _padded.along_k(a.view(torch.int8), b.t().view(torch.int8))
    return left.view(a.dtype), right.view(b.dtype)
