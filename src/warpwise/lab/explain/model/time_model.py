"""How long each unit of the device is busy with a launch, and so how long the launch takes.

Units work side by side, so the slowest one decides, if there are warps enough to keep it fed: the time that a lone warp
takes, times how often an SM fills up with blocks, is a bound like any other ("latency"). But nothing overlaps wholly:
units that wait for one another in turn, such as DRAM and the pipes of an SM, add up as the root of their squares. That
exponent was chosen on the times of 125 launches on an H200 (benchmarks/results/h200/ncu): of 1.5 to 3 in quarters, 2
orders the ladders best, and 2.25 comes a little nearer to the times. No rung or operation has a constant of its own.
Where ``hardware``'s constants were read off is said there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from warpwise.lab.explain.model import contention, stages
from warpwise.lab.explain.model.hardware import Hardware
from warpwise.lab.explain.model.metrics import SECTOR, CounterTable
from warpwise.lab.explain.model.occupancy import Occupancy
from warpwise.lab.explain.model.pipes import multiply_adds
from warpwise.machine.counts import Counts

GROUPS = (
    ("DRAM",),
    ("L2",),
    ("atomics",),
    ("L1 tag stage", "L1 data stage", "LSU issue"),
    ("issue slots", "FMA", "ALU", "FP64", "tensor", "SFU (XU)", "uniform", "ADU", "CBU"),
    ("latency",),
)
"""Units that the same instructions pass through one after another, a pipeline, of which only the slowest stage counts."""

FLOATS = frozenset({"F32", "F64", "F16x2", "BF16x2", "F16", "BF16"})  # among an atomic's modifiers
THROUGHPUT = (
    "DRAM", "L2", "L1 tag stage", "L1 data stage", "atomics", "LSU issue", "FMA", "ALU", "FP64", "tensor", "SFU (XU)",
    "uniform", "ADU", "CBU", "issue slots",
)  # fmt: skip
"""Units that have a rate, and that ncu gives a utilisation of."""


@dataclass(frozen=True)
class Demand:
    """What a launch asks of one unit: ``amount`` of ``what`` at ``rate`` a second take ``seconds``, on the busiest SM."""

    amount: float
    what: str
    rate: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.amount:,.0f} {self.what} at {self.rate / 1e9:,.4g} G/s: {self.seconds * 1e6:,.2f} µs"


@dataclass(frozen=True)
class Prediction:
    """Predicted seconds of a launch on ``device``.

    ``units`` gives the seconds that each unit is busy, with "latency" (waiting, however fast the units) and "launch" (a
    constant); ``demands`` has the figures that led to each. ``time`` is all of them together, ``limiter`` the one that is
    largest, ``busiest`` the largest of those that have a rate, which is what ncu would show as most used. ``floor`` is
    the least that the launch's distinct bytes need at DRAM's rate, launch included.
    """

    device: str
    units: Mapping[str, float] = field(hash=False)
    demands: Mapping[str, Demand] = field(hash=False)
    time: float
    floor: float
    floor_bytes: int

    @property
    def limiter(self) -> str:
        """The unit, "latency" or "launch", that takes longest."""
        return max(self.units, key=lambda name: self.units[name])

    @property
    def busiest(self) -> str:
        """The unit with a rate that takes longest. Atomics that wait in one slice of L2 leave the others idle: not that."""
        rated = [name for name in self.demands if name != "atomics"] or list(self.units)
        return max(rated, key=lambda name: self.units[name])

    def utilisation(self, unit: str) -> float:
        """The part of the predicted time that a unit is busy, 0 to 1."""
        return self.units.get(unit, 0.0) / self.time if self.time else 0.0

    def scaled(self, factors: Mapping[str, float]) -> float:
        """Predicted seconds if the time of each unit named were multiplied by its factor."""
        return combined({name: seconds * factors.get(name, 1.0) for name, seconds in self.units.items()})

    def speedup(self, factors: Mapping[str, float]) -> float:
        """How many times faster the launch would be if the time of each unit named were multiplied by its factor."""
        return self.time / self.scaled(factors)


def predict(counts: Counts, occupancy: Occupancy, hardware: Hardware) -> Prediction:
    """Seconds by unit from a run's counters, and what they give together. Amounts are of the whole launch."""
    table = CounterTable(counts)
    uneven = imbalance(counts.blocks, hardware.sm_count)
    demands = {
        name: Demand(amount, what, per_clock * hardware.sm_count * hardware.clock_hz, seconds)
        for name, (amount, what, per_clock) in _of_multiprocessors(table, hardware).items()
        if (seconds := uneven * hardware.seconds(amount, per_clock))
    }
    demands |= _of_device(table, hardware)
    demands = {name: demands[name] for name in THROUGHPUT if name in demands}
    units = {name: demand.seconds for name, demand in demands.items()}
    units["latency"] = latency(counts, occupancy, hardware)
    units["launch"] = hardware.launch_s
    read, written = distinct_sectors(counts)
    distinct = SECTOR * (read + written)
    return Prediction(
        hardware.name,
        units,
        demands,
        combined(units),
        hardware.launch_s + distinct / hardware.dram_rate(read, written),
        distinct,
    )


def combined(units: Mapping[str, float]) -> float:
    """The launch's overhead, and after it the root of the squares of each group's slowest unit."""
    slowest = (max((units.get(name, 0.0) for name in group), default=0.0) for group in GROUPS)
    return units.get("launch", 0.0) + math.sqrt(sum(seconds * seconds for seconds in slowest))


def imbalance(blocks: int, sm_count: int) -> float:
    """The busiest SM's blocks over the mean: 1 if ``blocks`` divide evenly among SMs, up to ``sm_count`` for one block."""
    return math.ceil(blocks / sm_count) * sm_count / blocks if blocks else 1.0


def latency(counts: Counts, occupancy: Occupancy, hardware: Hardware) -> float:
    """Seconds that the busiest SM takes if nothing but waiting counts: rounds of blocks, times a block's own time.

    A block takes what a warp would take alone, and the time until the next block's warps issue.
    """
    if not occupancy.blocks or not counts.blocks:
        return 0.0
    rounds = math.ceil(math.ceil(counts.blocks / hardware.sm_count) / occupancy.blocks)
    return rounds * (counts.mean_warp_cycles + hardware.block_cycles) / hardware.clock_hz


def distinct_sectors(counts: Counts) -> tuple[int, int]:
    """Sectors read and written, each once; a sample's, scaled up, count no more than the buffers touched have."""
    if not counts.sampled:
        return counts.sectors_read, counts.sectors_written
    table = CounterTable(counts)
    loads = contention.touched(counts, table.accesses("global", "ld", "ldgsts", "atom", "red"))
    stores = contention.touched(counts, table.accesses("global", "st", "atom", "red"))
    return (
        min(counts.sectors_read, loads or counts.sectors_read),
        min(counts.sectors_written, stores or counts.sectors_written),
    )


def dram_sectors(counts: Counts) -> tuple[int, int]:
    """Sectors that cross DRAM: what L2 has to fetch, at least once each, and what is written.

    Of a sampled run the scaled misses say nothing of reuse between blocks, and L2 is taken to catch all of it; what a block
    itself reads again, too late to find it, counts again.
    """
    read, written = distinct_sectors(counts)
    return (read + counts.l2_rereads if counts.sampled else max(counts.l2_misses, read)), written


def _of_multiprocessors(table: CounterTable, hardware: Hardware) -> dict[str, tuple[float, str, float]]:
    """What the SMs' own units are asked for: amount, of what, and how many a clock and SM."""
    pipes, rate = table.by_pipe(table.all), hardware.rates
    heavy = pipes["fmaheavy"] / rate["fmaheavy"] > pipes["fma"] / rate["fma"]
    shared, lines = stages.data_passes(table)
    return {
        "L1 tag stage": (stages.tag_passes(table), "lookups of up to 4 lines", 1.0),
        "L1 data stage": (shared + lines, f"wavefronts ({shared:,.0f} of shared memory)", 1.0),
        "LSU issue": (pipes["lsu"], "instructions", rate["lsu"]),
        "FMA": (pipes["fmaheavy"], "integer multiply-adds", rate["fmaheavy"]) if heavy else (pipes["fma"], "instructions", rate["fma"]),
        "ALU": (pipes["alu"], "instructions", rate["alu"]),
        "FP64": (pipes["fp64"], "instructions", rate["fp64"]),
        "tensor": (_matrix_flops(table), "FLOPs", hardware.tensor_flops.get("fp16", 1024.0)),
        "SFU (XU)": (pipes["xu"], "instructions", rate["xu"]),
        "uniform": (pipes["uniform"], "instructions", rate["uniform"]),
        "ADU": (pipes["adu"], "instructions", rate["adu"]),
        "CBU": (pipes["cbu"], "instructions", rate["cbu"]),
        "issue slots": (table.sum("executed", table.all), "warp instructions", rate["issue"]),
    }  # fmt: skip


def _matrix_flops(table: CounterTable) -> float:
    """FLOPs of matrix instructions, in those of half precision: TF32 counts twice, 8 bits half."""
    total = 0.0
    executed = table.counts.column("executed")
    for i, instruction in enumerate(table.counts.program.instructions):
        if table.pipes[i] != "tensor":
            continue
        weight = (
            2.0 if "TF32" in instruction.modifiers else 0.5 if instruction.opcode in ("IMMA", "QGMMA", "IGMMA") else 1.0
        )
        total += 2.0 * weight * multiply_adds(instruction.modifiers) * float(executed[i])
    return total


def _of_device(table: CounterTable, hardware: Hardware) -> dict[str, Demand]:
    """What units outside of the SMs are asked for."""
    counts = table.counts
    updates, clocks = table.accesses("global", "red", "atom"), 0.0
    for i in np.flatnonzero(updates & (counts.column("requests") > 0)):
        slices = min(hardware.l2_slices, contention.slices(counts, int(i)))
        floats = FLOATS & set(counts.program.instructions[i].modifiers)
        each = hardware.float_atomic_clocks if floats else hardware.integer_atomic_clocks
        clocks += each * contention.operations(counts, int(i)) * float(counts.column("requests")[i]) / slices
    read, written = dram_sectors(counts)
    asked = (
        ("DRAM", SECTOR * (read + written), "bytes", hardware.dram_rate(read, written)),
        ("L2", stages.l2_packets(table), "packets", hardware.l2_slices * hardware.l2_clock_hz),
        ("atomics", clocks, "clocks of the fullest slice", hardware.l2_clock_hz),
    )
    return {name: Demand(amount, what, per_s, amount / per_s) for name, amount, what, per_s in asked if amount}
