"""Performance counters of a launch, per instruction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from warpwise.machine.program import Program

FIELDS = (
    "executed", "threads", "threads_on", "requests", "bytes", "tags", "sectors", "ideal_sectors", "l1_hits",
    "l2_sectors", "wavefronts", "ideal_wavefronts", "conflicts", "stall_cycles", "l2_hits", "dram_sectors",
    "off4", "off8", "off16",
)  # fmt: skip
"""The counters of an instruction, as defined by ``InstructionCounts`` in runtime/machine.h, in the same order."""


@dataclass(frozen=True)
class Sample:
    """One request of a memory instruction: ``addresses`` of the lanes in ``lanes`` (a bit mask), ``bytes`` per lane.

    Global addresses lie in the run's copies of the arguments, see ``Counts.buffers``. Shared and local addresses start
    at 0.
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
    """A pointer argument: its name, and the address and size of its copy in the run."""

    name: str
    address: int
    nbytes: int
    element_bytes: int


@dataclass(frozen=True)
class Counts:
    """Counters of one launch per instruction: row ``i`` of ``table`` belongs to ``program.instructions[i]``.

    ``table`` has one int64 column per entry of ``FIELDS``. If only a sample of the blocks ran (``blocks_run`` of
    ``blocks``), ``sampled`` is true and the counters are scaled up to the whole grid. ``warp_cycles`` is the time of
    the slowest executed warp if it ran alone on an SM, from the scheduling bits and nominal latencies;
    ``mean_warp_cycles`` is the mean. ``sectors_read`` and ``sectors_written`` are distinct 32-byte sectors of global
    memory, the compulsory DRAM traffic. ``l2_misses`` are sectors that missed in the L2 model; ``l2_rereads`` are those
    that a block read again after their eviction from its share of L2. ``outputs`` holds the buffers' bytes after the
    run, by name.
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
        """True if only a sample of the grid's blocks was executed."""
        return self.blocks_run < self.blocks

    def column(self, name: str) -> np.ndarray:
        """Return one counter for every instruction (int64)."""
        return self.table[:, FIELDS.index(name)]

    def total(self, name: str, *opcodes: str) -> int:
        """Return one counter summed over the instructions with these opcodes ("LDG"), or over all instructions."""
        if not opcodes:
            return int(self.column(name).sum())
        chosen = [i for i, instruction in enumerate(self.program.instructions) if instruction.opcode in opcodes]
        return int(self.column(name)[chosen].sum())
