"""What the executed instructions of a launch did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from warpwise.machine.program import Program

FIELDS = (
    "executed", "threads", "threads_on", "requests", "bytes", "tags", "sectors", "ideal_sectors", "l1_hits", "l2_sectors",
    "wavefronts", "ideal_wavefronts", "conflicts", "stall_cycles", "l2_hits", "dram_sectors",
)  # fmt: skip
"""The counters of one instruction, in the order of ``InstructionCounts`` in runtime/machine.h, which says what each is."""


@dataclass(frozen=True)
class Sample:
    """One request of a memory instruction: ``addresses`` of the lanes in ``lanes`` (a bit mask), ``bytes`` a lane.

    Global addresses are those of the copies that the run worked on: ``Counts.buffers`` says whose. Shared and local
    addresses count from 0.
    """

    instruction: int
    block: tuple[int, int, int]
    warp: int
    lanes: int
    bytes: int
    addresses: tuple[int, ...]
    sectors: int
    wavefronts: int


@dataclass(frozen=True)
class Buffer:
    """A pointer argument during the run: its name, where its copy began and how long it is."""

    name: str
    address: int
    nbytes: int
    element_bytes: int


@dataclass(frozen=True)
class Counts:
    """Counters of one launch, by instruction; row ``i`` of ``table`` belongs to ``program.instructions[i]``.

    ``table`` has one int64 column for each of ``FIELDS``. Where only a sample of the blocks ran (``blocks_run`` of
    ``blocks``), the counters are scaled up to the whole grid already, and ``sampled`` is true. ``warp_cycles`` is how
    long the slowest of the warps that ran would take alone on an SM, from the scheduling bits and nominal latencies;
    ``mean_warp_cycles`` is the mean. ``sectors_read`` and ``sectors_written`` are distinct 32-byte sectors of global
    memory: what must cross DRAM at least, once. ``l2_misses`` are sectors that the model of L2 did not hold, and
    ``l2_rereads`` those that a block read again after it and the blocks beside it had pushed them out.
    ``outputs`` are the buffers' bytes after the run, by name, for comparison with the checked emulation.
    """

    program: Program
    table: np.ndarray
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    blocks: int
    blocks_run: int
    warps: int
    warp_cycles: float
    mean_warp_cycles: float
    sectors_read: int
    sectors_written: int
    l2_misses: int
    barriers: int
    seconds: float
    buffers: tuple[Buffer, ...] = ()
    l2_rereads: int = 0
    samples: dict[int, tuple[Sample, ...]] = field(default_factory=dict)
    outputs: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def sampled(self) -> bool:
        """Whether only a part of the grid's blocks was executed."""
        return self.blocks_run < self.blocks

    def column(self, name: str) -> np.ndarray:
        """One counter for every instruction, int64."""
        return self.table[:, FIELDS.index(name)]

    def total(self, name: str, *opcodes: str) -> int:
        """One counter summed over the instructions with these opcodes ("LDG"), or over all."""
        if not opcodes:
            return int(self.column(name).sum())
        chosen = [i for i, instruction in enumerate(self.program.instructions) if instruction.opcode in opcodes]
        return int(self.column(name)[chosen].sum())
