"""Tiles of Triton kernels that load their operands by TMA, and the matrices that TMA can address."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from warpwise.gemm.limits import HOPPER_SHARED
from warpwise.gemm.tiles import Tile
from warpwise.operation import cdiv, sm_count

# Times in multiply-adds of a k step that an SM makes at once, fitted to ten sizes on an H200. At one of them, 3000 x
# 1000 x 776, the order is wrong: two programs per SM with small tiles hide less latency there than the model assumes.
EDGE = 40  # of each row and column of a tile in a k step: loads beside products
STORE = 1.65 * 64  # of an element of a tile that no other program's products overlap


class BoxTile(Tile):
    """A tile whose operands arrive in TMA boxes; the result is stored in boxes of half a tile."""

    __slots__ = ()

    @property
    def program_bytes(self) -> int:
        """Shared memory of a program: the stages, half a tile of 2-byte results, barriers."""
        return self.bytes + self.m * self.n + 1024

    @property
    def programs_per_sm(self) -> int:
        return max(1, HOPPER_SHARED // self.program_bytes)

    def time(self, tiles: int, k: int, sms: int) -> float:
        """The busiest SM's time for ``tiles`` tiles on ``sms`` SMs. Two programs per SM overlap stores with wgmma."""
        products = k * (self.m * self.n + EDGE * (self.m + self.n))
        store = STORE * self.m * self.n if self.programs_per_sm == 1 else 0
        return cdiv(tiles, sms) * (products + store)


TILES = (
    BoxTile(128, 256, 64, 4, 8),
    BoxTile(128, 256, 64, 3, 8),
    BoxTile(256, 128, 64, 4, 8),
    BoxTile(128, 128, 64, 3, 4),
    BoxTile(128, 128, 64, 4, 8),
    BoxTile(64, 256, 64, 4, 4),
    BoxTile(64, 128, 64, 4, 4),
    BoxTile(64, 64, 64, 4, 4),
)
_NAMED = {tile.name: tile for tile in TILES}


@functools.lru_cache(maxsize=1024)
def ranked(batch: int, m: int, n: int, k: int, sms: int) -> tuple[str, ...]:
    """The names of all tiles for ``batch`` products of (m, k) and (k, n), the fastest by ``BoxTile.time`` first.

    Of two that differ in stages alone, three come first for one product (2 % faster at 8192 on an H200), four for a
    batch (6 % faster for 16 products of 1024).
    """

    def time(name: str) -> tuple[float, int]:
        tile = _NAMED[name]
        tiles = batch * cdiv(m, tile.m) * cdiv(n, tile.n)
        return tile.time(tiles, k, sms), tile.stages if batch == 1 else -tile.stages

    return tuple(sorted(_NAMED, key=time))


def fits(name: str, halves: int) -> bool:
    """True if an SM has shared memory for a program that also loads ``halves`` half tiles in its epilogue."""
    tile = named(name)
    return tile.program_bytes + halves * tile.m * tile.n <= HOPPER_SHARED


def named(name: str) -> BoxTile:
    """The tile called ``name``."""
    return _NAMED[name]


def programs(tile: BoxTile, tiles: int, tensor: torch.Tensor) -> int:
    """The grid of persistent programs: as many as the tensor's GPU holds at once, ``tiles`` at most."""
    return min(tiles, sm_count(tensor) * tile.programs_per_sm)


def transposed(matrices: torch.Tensor) -> bool:
    """True if the last dimension is not the contiguous one."""
    return matrices.stride(-1) != 1


def tma_limit(name: str, matrices: torch.Tensor) -> str | None:
    """Why TMA cannot load boxes of ``matrices``, or None: strides and the address are multiples of 16 bytes."""
    pitch, step, outer = _strides(matrices)
    unit = 16 // matrices.element_size()
    if step != 1 or pitch <= 0 or any(stride % unit for stride in (*outer, pitch)):
        return (
            f"takes {name} whose rows or columns are contiguous and begin on multiples of {unit} elements, "
            f"not strides {tuple(matrices.stride())}"
        )
    return f"takes {name} that begins on 16 bytes" if matrices.data_ptr() % 16 else None


def _strides(matrices: torch.Tensor) -> tuple[int, int, list[int]]:
    """The strides of rows, of elements in a row, and of matrices; those of the transposes if they are transposed.

    PyTorch may report any stride for a dimension of size 1; a row's stands in for it.
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
