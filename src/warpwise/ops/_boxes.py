"""Tiles for Triton kernels whose factors the copy engine fetches in boxes: which matrices it takes, which tile fits."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops._tiles import Tile

PER_SM = 227 * 1024  # bytes of shared memory that blocks may have on a Hopper SM
# Times in multiply-adds of a step along k that an SM makes at once, fitted to ten sizes on an H200. At one of them, 3000 x
# 1000 x 776, the order is wrong: few small tiles for each of two programs an SM hide less than is counted here.
EDGE = 40  # of each row and column of a tile at a step: loads against products
WRITING = 1.65 * 64  # of an element of a tile that nothing else runs beside


class Boxes(Tile):
    """A tile whose slices come in boxes, and half of which leaves in one."""

    __slots__ = ()

    @property
    def a_program(self) -> int:
        """Bytes of shared memory: the slices in flight, half a tile of 2-byte elements on its way out, barriers."""
        return self.bytes + self.m * self.n + 1024

    @property
    def an_sm(self) -> int:
        """Programs that an SM holds."""
        return max(1, PER_SM // self.a_program)

    def time(self, tiles: int, k: int, processors: int) -> float:
        """How long the busiest of the processors (SMs) is at ``tiles`` of sums over k; two programs write beside products."""
        products = k * (self.m * self.n + EDGE * (self.m + self.n))
        writing = WRITING * self.m * self.n if self.an_sm == 1 else 0
        return cdiv(tiles, processors) * (products + writing)


CHOICES = (
    Boxes(128, 256, 64, 4, 8),
    Boxes(128, 256, 64, 3, 8),
    Boxes(256, 128, 64, 4, 8),
    Boxes(128, 128, 64, 3, 4),
    Boxes(128, 128, 64, 4, 8),
    Boxes(64, 256, 64, 4, 4),
    Boxes(64, 128, 64, 4, 4),
    Boxes(64, 64, 64, 4, 4),
)
_NAMED = {boxes.name: boxes for boxes in CHOICES}


@functools.lru_cache(maxsize=1024)
def ranked(batch: int, m: int, n: int, k: int, processors: int) -> tuple[str, ...]:
    """The names of all choices for ``batch`` products (m, k) by (k, n), the fastest as ``Boxes.time`` has it first.

    Of the same tile with three stages and four: three for one product, 2 % faster at 8192, four for several, 6 % faster at
    16 of 1024.
    """

    def time(name: str) -> tuple[float, int]:
        boxes = _NAMED[name]
        tiles = batch * cdiv(m, boxes.m) * cdiv(n, boxes.n)
        return boxes.time(tiles, k, processors), boxes.stages if batch == 1 else -boxes.stages

    return tuple(sorted(_NAMED, key=time))


def fits(name: str, halves: int) -> bool:
    """Whether an SM has the memory for a program that also reads ``halves`` half tiles by boxes when it ends a tile."""
    boxes = named(name)
    return boxes.a_program + halves * boxes.m * boxes.n <= PER_SM


def named(name: str) -> Boxes:
    """The choice called ``name``."""
    return _NAMED[name]


def programs(boxes: Boxes, tiles: int, tensor: torch.Tensor) -> int:
    """A grid of programs that stay until all tiles are done: as many as the tensor's GPU holds at a time."""
    return min(tiles, multiprocessors(tensor) * boxes.an_sm)


def turned(matrices: torch.Tensor) -> bool:
    """Whether columns and not rows lie in memory's order."""
    return matrices.stride(-1) != 1


def boxable(name: str, matrices: torch.Tensor) -> str | None:
    """Why the copy engine cannot take boxes of ``matrices``, or None: an order in memory, and strides of 16 bytes."""
    across, along, outer = _steps(matrices)
    unit = 16 // matrices.element_size()
    if along != 1 or across <= 0 or any(stride % unit for stride in (*outer, across)):
        return (
            f"takes {name} whose rows or columns are contiguous and begin on multiples of {unit} elements, "
            f"not strides {tuple(matrices.stride())}"
        )
    return f"takes {name} that begins on 16 bytes" if matrices.data_ptr() % 16 else None


def _steps(matrices: torch.Tensor) -> tuple[int, int, list[int]]:
    """Elements from one row to the next and along it, of the transposes if they are turned, and between matrices.

    Where there is but one matrix nobody takes that last step: PyTorch may say anything, and the engine gets a row's.
    """
    across, along = matrices.stride()[-2:] if not turned(matrices) else matrices.stride()[:-3:-1]
    outer = zip(matrices.shape[:-2], matrices.stride()[:-2], strict=True)
    return across, along, [stride if size > 1 else across for size, stride in outer]


def engine(tensor: torch.Tensor) -> str | None:
    """Why the tensor's GPU cannot run a kernel with boxes, or None; a CPU stands in for one that can."""
    if tensor.is_cuda and torch.cuda.get_device_capability(tensor.device) < (9, 0):
        return "takes a GPU of compute capability 9.0 or above: its copy engine fetches the boxes"
    return None


def described(matrices: torch.Tensor, box: Sequence[int]) -> Any:
    """A descriptor of ``matrices`` in boxes of (rows, columns), of their transposes if they are turned; one matrix a box."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    across, along, outer = _steps(matrices)
    sizes, (rows, columns) = list(matrices.shape), box
    if turned(matrices):
        sizes[-2:], rows, columns = sizes[:-3:-1], columns, rows
    return TensorDescriptor(matrices, sizes, [*outer, across, along], [*(1 for _ in outer), rows, columns])
