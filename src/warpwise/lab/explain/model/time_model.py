"""The time model: the busy time of each unit of the device, and the time of the launch.

Units work concurrently, so the slowest one bounds the time. Latency is a bound too: the time of a block whose warps run
alone, times the number of waves. Overlap is incomplete: the times of units that depend on one another, such as DRAM and
the pipes of an SM, combine as the root of the sum of their squares. The exponent 2 was chosen on 125 launches on an
H200 (benchmarks/results/h200/ncu): among 1.5 to 3 in steps of 0.25, it orders the ladders best, and 2.25 gives slightly
closer times. No rung or operation has its own constant. ``hardware`` gives the sources of the constants.
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
"""Groups of units that an instruction passes in sequence: a pipeline, of which only the slowest stage counts."""

FLOATS = frozenset({"F32", "F64", "F16x2", "BF16x2", "F16", "BF16"})  # modifiers of floating-point atomics
THROUGHPUT = (
    "DRAM", "L2", "L1 tag stage", "L1 data stage", "atomics", "LSU issue", "FMA", "ALU", "FP64", "tensor", "SFU (XU)",
    "uniform", "ADU", "CBU", "issue slots",
)  # fmt: skip
"""Units with a rate, for which ncu reports a utilisation."""


@dataclass(frozen=True)
class Demand:
    """Work of one unit: ``amount`` of ``what`` at ``rate`` per second take ``seconds`` on the busiest SM."""

    amount: float
    what: str
    rate: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.amount:,.0f} {self.what} at {self.rate / 1e9:,.4g} G/s: {self.seconds * 1e6:,.2f} µs"


@dataclass(frozen=True)
class Prediction:
    """Predicted seconds of a launch on ``device``.

    ``units`` gives the busy seconds of each unit, with "latency" (stalls, independent of rates) and "launch" (a
    constant); ``demands`` has the work behind them. ``time`` combines all of them, ``limiter`` is the largest, and
    ``busiest`` the largest with a rate, ncu's most utilised unit. ``floor`` is the time of the launch's distinct bytes
    at the DRAM rate, launch overhead included. ``excluded`` names what ``time`` does not include.
    """

    device: str
    units: Mapping[str, float] = field(hash=False)
    demands: Mapping[str, Demand] = field(hash=False)
    time: float
    floor: float
    floor_bytes: int
    excluded: str = ""

    @property
    def limiter(self) -> str:
        """The unit with the longest time, or "latency" or "launch"."""
        return max(self.units, key=lambda name: self.units[name])

    @property
    def busiest(self) -> str:
        """The unit with a rate and the longest time. Atomics are excluded: contention in one L2 slice leaves the others
        idle.
        """
        rated = [name for name in self.demands if name != "atomics"] or list(self.units)
        return max(rated, key=lambda name: self.units[name])

    def utilisation(self, unit: str) -> float:
        """Busy time of a unit over the predicted time, 0 to 1."""
        return self.units.get(unit, 0.0) / self.time if self.time else 0.0

    def scaled(self, factors: Mapping[str, float]) -> float:
        """Predicted seconds if the time of each unit named were multiplied by its factor."""
        return combined({name: seconds * factors.get(name, 1.0) for name, seconds in self.units.items()})

    def speedup(self, factors: Mapping[str, float]) -> float:
        """How many times faster the launch would be if the time of each unit named were multiplied by its factor."""
        return self.time / self.scaled(factors)


def predict(counts: Counts, occupancy: Occupancy, hardware: Hardware) -> Prediction:
    """Predict the seconds of each unit and of the launch from a run's counters. Amounts are those of the whole
    launch.
    """
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
    """The launch overhead plus the root of the sum of squares over the slowest unit of each group."""
    slowest = (max((units.get(name, 0.0) for name in group), default=0.0) for group in GROUPS)
    return units.get("launch", 0.0) + math.sqrt(sum(seconds * seconds for seconds in slowest))


def imbalance(blocks: int, sm_count: int) -> float:
    """The busiest SM's blocks over the mean: 1 if ``blocks`` is a multiple of ``sm_count``, and ``sm_count`` for one
    block.
    """
    return math.ceil(blocks / sm_count) * sm_count / blocks if blocks else 1.0


def latency(counts: Counts, occupancy: Occupancy, hardware: Hardware) -> float:
    """Seconds of the busiest SM if only latency counts: its number of waves times the time of one block.

    The time of a block is that of a warp alone on the SM, plus the delay until the next block's warps issue.
    """
    if not occupancy.blocks or not counts.blocks:
        return 0.0
    rounds = math.ceil(math.ceil(counts.blocks / hardware.sm_count) / occupancy.blocks)
    return rounds * (counts.mean_warp_cycles + hardware.block_cycles) / hardware.clock_hz


def distinct_sectors(counts: Counts) -> tuple[int, int]:
    """Distinct sectors read and written; if the run was sampled, at most those of the buffers accessed."""
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
    """Sectors read from and written to DRAM: L2 misses, at least one per distinct sector, and distinct sectors written.

    The scaled misses of a sampled run do not account for reuse between blocks, so the model assumes that L2 serves all
    of it; sectors that a block reads again after their eviction count again.
    """
    read, written = distinct_sectors(counts)
    return (read + counts.l2_rereads if counts.sampled else max(counts.l2_misses, read)), written


def _of_multiprocessors(table: CounterTable, hardware: Hardware) -> dict[str, tuple[float, str, float]]:
    """Work of the units of an SM: amount, its name, and the rate per clock and SM."""
    pipes, rate = table.by_pipe(table.all), hardware.rates
    heavy = pipes["fmaheavy"] / rate["fmaheavy"] > pipes["fma"] / rate["fma"]
    shared, others = stages.data_passes(table)
    of_shared = f" ({shared:,.0f} of shared memory)" if shared else ""
    return {
        "L1 tag stage": (stages.tag_passes(table), "lookups of up to 4 lines", 1.0),
        "L1 data stage": (shared + others, f"wavefronts{of_shared}", 1.0),
        "LSU issue": (pipes["lsu"], "instructions", rate["lsu"]),
        "FMA": (pipes["fmaheavy"], "integer multiply-adds", rate["fmaheavy"])
        if heavy
        else (pipes["fma"], "instructions", rate["fma"]),
        "ALU": (pipes["alu"], "instructions", rate["alu"]),
        "FP64": (pipes["fp64"], "instructions", rate["fp64"]),
        "tensor": (_matrix_flops(table), "FLOPs", hardware.tensor_flops.get("fp16", 1024.0)),
        "SFU (XU)": (pipes["xu"], "instructions", rate["xu"]),
        "uniform": (pipes["uniform"], "instructions", rate["uniform"]),
        "ADU": (pipes["adu"], "instructions", rate["adu"]),
        "CBU": (pipes["cbu"], "instructions", rate["cbu"]),
        "issue slots": (table.sum("executed", table.all), "warp instructions", rate["issue"]),
    }


def _matrix_flops(table: CounterTable) -> float:
    """FLOPs of matrix instructions in units of half precision: TF32 counts twice, 8-bit types half."""
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
    """Work of the units outside the SMs."""
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
