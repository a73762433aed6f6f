"""Compile a kernel for an architecture and execute its SASS on NumPy arrays."""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass

import numpy as np

from warpwise import cuda, machine
from warpwise.machine.counts import Counts

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")


@dataclass(frozen=True)
class Pointer:
    """An array argument."""

    name: str
    address: int
    nbytes: int
    element_bytes: int
    storage: int
    const: bool = False


@dataclass(frozen=True)
class Number:
    """A scalar argument."""

    name: str
    data: bytes


@functools.cache
def program(source: str, target: str) -> machine.Program:
    """Return the kernel ``k`` of ``source``."""
    compiled = cuda.load(source)["k"].compile(target)
    return machine.load_program(compiled.cubin, compiled.symbol)


def launch(
    source: str,
    target: str,
    grid: int | tuple[int, int, int],
    block: int | tuple[int, int, int],
    *arguments: np.ndarray | float,
    shared_bytes: int = 0,
    blocks: int | None = None,
) -> Counts:
    """Execute ``k[grid, block](*arguments)``, or a sample of ``blocks``; int and float arguments are 32-bit.

    Arrays are modified in place.
    """
    aligned = [aligned_copy(each) if isinstance(each, np.ndarray) else each for each in arguments]
    packed: list[Pointer | Number] = []
    for position, value in enumerate(aligned):
        name = f"argument{position}"
        if isinstance(value, np.ndarray):
            packed.append(Pointer(name, value.ctypes.data, value.nbytes, value.itemsize, value.ctypes.data))
        else:
            packed.append(Number(name, struct.pack("<f" if isinstance(value, float) else "<i", value)))
    counts = machine.run(program(source, target), _three(grid), _three(block), shared_bytes, packed, blocks=blocks)
    for position, value in enumerate(arguments):
        if isinstance(value, np.ndarray):
            value[...] = counts.outputs[f"argument{position}"].view(value.dtype).reshape(value.shape)
    return counts


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """Copy an array to memory aligned to 512 bytes, as from cudaMalloc."""
    room = np.zeros(array.nbytes + 512, np.uint8)
    start = -room.ctypes.data % 512
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _three(size: int | tuple[int, int, int]) -> tuple[int, int, int]:
    return (size, 1, 1) if isinstance(size, int) else size
