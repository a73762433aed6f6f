"""Tiles of Triton kernels that load operands by TMA, and the matrices that TMA can address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from warpwise.gemm.config import GemmConfig, parsed
from warpwise.gemm.limits import HOPPER_SHARED, grid_of_tiles, requires_hopper, requires_k
from warpwise.gemm.time_model import Family, persistent
from warpwise.operation import sm_count

TILES = parsed(
    "128x256x64_w8_s3", "128x256x64_w8_s4", "256x128x64_w8_s4", "128x128x64_w4_s3", "128x128x64_w8_s4",
    "64x256x64_w4_s4", "64x128x64_w4_s4", "64x64x64_w4_s4",
)  # fmt: skip
# Three stages are as fast as four.
configs = Family(lambda config: persistent(config)._replace(stages=4)).configs(lambda product: TILES)


def program_bytes(tile: GemmConfig) -> int:
    """Shared memory of a program: the stages, half a tile of 2-byte results, barriers."""
    return tile.ring_bytes(2, barriers=0) + tile.m * tile.n


def programs(tile: GemmConfig, tiles: int, tensor: torch.Tensor) -> int:
    """The grid of persistent programs: the resident programs of the tensor's GPU, but at most ``tiles``."""
    return min(tiles, sm_count(tensor) * max(1, HOPPER_SHARED // program_bytes(tile)))


def transposed(matrices: torch.Tensor) -> bool:
    """True if the last dimension is not the contiguous one."""
    return matrices.stride(-1) != 1


def one_matrix(operand: torch.Tensor) -> torch.Tensor:
    """``operand`` as a batch, of one matrix if the whole batch shares it."""
    matrices = operand if operand.dim() == 3 else operand[None]
    return matrices[:1] if matrices.stride(0) == 0 else matrices


def tma_limit(name: str, matrices: torch.Tensor) -> str | None:
    """The reason why TMA cannot load ``matrices``, or None: strides and address must be multiples of 16 bytes."""
    pitch, step, outer = _strides(matrices)
    unit = 16 // matrices.element_size()
    if step != 1 or pitch <= 0 or any(stride % unit for stride in (*outer, pitch)):
        return (
            f"takes {name} whose rows or columns are contiguous and begin on multiples of {unit} elements, "
            f"not strides {tuple(matrices.stride())}"
        )
    return f"takes {name} that begins on 16 bytes" if matrices.data_ptr() % 16 else None


def product_limit(a: torch.Tensor, b: torch.Tensor, names: tuple[str, str, str] = ("a", "b", "n")) -> str | None:
    """The reason why TMA cannot load a (..., M, K) and b (..., K, N) and store C = A B, or None. ``names``: those
    of a, b and n."""
    unit = 16 // a.element_size()
    if b.shape[-1] % unit:
        return f"takes {names[2]} in multiples of {unit}, so that rows of C begin on 16 bytes, not {b.shape[-1]}"
    return requires_k(a.shape[-1]) or tma_limit(names[0], a) or tma_limit(names[1], b)


def warpgroup_limit(a: torch.Tensor, b: torch.Tensor, names: tuple[str, str, str] = ("a", "b", "n")) -> str | None:
    """The limit of kernels that load by TMA and multiply by wgmma: a Hopper GPU, and matrices that TMA can address."""
    return requires_hopper(a) or product_limit(a, b, names) or grid_of_tiles(a, b)


def _strides(matrices: torch.Tensor) -> tuple[int, int, list[int]]:
    """The strides of rows, of elements in a row, and of matrices; those of the transposes if they are transposed.

    PyTorch may report any stride for a dimension of size 1; the row stride replaces it.
    """
    pitch, step = matrices.stride()[-2:] if not transposed(matrices) else matrices.stride()[:-3:-1]
    outer = zip(matrices.shape[:-2], matrices.stride()[:-2], strict=True)
    return pitch, step, [stride if size > 1 else pitch for size, stride in outer]


def descriptor(matrices: torch.Tensor, box: Sequence[int]) -> Any:
    """A tensor descriptor of ``matrices``, of their transposes if they are transposed, in boxes of one matrix.

    ``box`` is (rows, columns) of ``matrices``.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    pitch, step, outer = _strides(matrices)
    shape, (rows, columns) = list(matrices.shape), box
    if transposed(matrices):
        shape[-2:], rows, columns = shape[:-3:-1], columns, rows
    return TensorDescriptor(matrices, shape, [*outer, pitch, step], [*(1 for _ in outer), rows, columns])
