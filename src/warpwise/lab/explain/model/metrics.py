"""A run's counters under Nsight Compute's names, for the launch and by source line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from warpwise.lab.explain.model.hardware import Hardware
from warpwise.lab.explain.model.limits import LEAST_REGISTERS
from warpwise.lab.explain.model.occupancy import Occupancy
from warpwise.lab.explain.model.pipes import PIPES, pipe_of
from warpwise.machine.counts import FIELDS, Counts
from warpwise.machine.program import Instruction

SECTOR = 32  # bytes

ACCESSES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "LDG": ("global", "ld"), "LD": ("global", "ld"), "STG": ("global", "st"), "ST": ("global", "st"), 
        "ATOMG": ("global", "atom"), "ATOM": ("global", "atom"), "RED": ("global", "red"), "REDG": ("global", "red"),
        "LDGSTS": ("global", "ldgsts"), "LDL": ("local", "ld"), "STL": ("local", "st"), 
        "LDS": ("shared", "ld"), "LDSM": ("shared", "ld"), "STS": ("shared", "st"), "STSM": ("shared", "st"), 
        "ATOMS": ("shared", "atom"),
    }
)  # fmt: skip
"""Opcodes that access memory, with the memory space and ncu's name of the operation."""

_T = "l1tex__t_{what}_pipe_lsu_mem_{space}_op_{op}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
_SHARED = "smsp__inst_executed_op_shared"
_OPS = {"global": ("ld", "st", "red", "atom"), "local": ("ld", "st"), "shared": ("ld", "st", "atom", "ldgsts")}


def metrics(counts: Counts, occupancy: Occupancy, hardware: Hardware) -> dict[str, float]:
    """Totals of the launch, under ncu's names.

    Memory operations, instructions by pipe, L2 and DRAM traffic, launch and occupancy. ``dram__bytes_read.sum`` and
    ``dram__bytes_write.sum`` are lower bounds: each distinct sector of global memory once;
    ``lts__t_sectors_srcunit_tex_lookup_miss.sum`` has the misses of the cache model. ``barriers`` counts block-wide
    barriers, for which ncu has no metric.
    """
    table = CounterTable(counts)
    found = _instruction_metrics(table, table.all) | _cache_metrics(table)
    found["barriers"] = float(counts.barriers)
    return found | launch_metrics(counts, occupancy, hardware)


def line_metrics(counts: Counts) -> dict[tuple[str, int], dict[str, float]]:
    """The counters of each source line that has machine code, by (file, line); names that stay 0 are left out.

    Names are ncu's as in ``metrics``, with plain names for counters that ncu does not have by line: ``ideal_sectors``
    and ``ideal_wavefronts`` (with full sectors and without bank conflicts), ``bytes`` that lanes access, ``tags``
    (128-byte lines looked up), ``stall_cycles`` of warps alone on their SM, and ``stall_share``, 0 to 1.
    """
    table = CounterTable(counts)
    rows: dict[tuple[str, int], list[int]] = {}
    for i, instruction in enumerate(counts.program.instructions):
        rows.setdefault((instruction.file, instruction.line), []).append(i)
    stalls = max(1, counts.total("stall_cycles"))
    found: dict[tuple[str, int], dict[str, float]] = {}
    for place, indices in rows.items():
        chosen = np.zeros(len(table.all), dtype=bool)
        chosen[indices] = True
        of_line = {name: value for name, value in _instruction_metrics(table, chosen).items() if value}
        for name in ("ideal_sectors", "ideal_wavefronts", "bytes", "tags", "stall_cycles"):
            if value := table.sum(name, chosen):
                of_line[name] = value
        of_line["stall_share"] = of_line.get("stall_cycles", 0.0) / stalls
        of_line["instructions"] = float(len(indices))
        found[place] = of_line
    return found


def launch_metrics(counts: Counts, occupancy: Occupancy, hardware: Hardware) -> dict[str, float]:
    """ncu's metrics of the launch, its resources and its theoretical occupancy."""
    limits, profile = occupancy.limits, occupancy.profile
    shared = occupancy.static_shared + occupancy.dynamic_shared + profile.shared_reserved_per_block
    return {
        "launch__grid_size": float(np.prod(counts.grid, dtype=np.int64)),
        "launch__block_size": float(occupancy.threads),
        "launch__thread_count": float(np.prod(counts.grid, dtype=np.int64)) * occupancy.threads,
        "launch__registers_per_thread": float(max(occupancy.registers, LEAST_REGISTERS)),
        "launch__registers_per_thread_allocated": float(occupancy.registers_allocated),
        "launch__shared_mem_per_block_static": float(occupancy.static_shared),
        "launch__shared_mem_per_block_dynamic": float(occupancy.dynamic_shared),
        "launch__shared_mem_per_block_driver": float(profile.shared_reserved_per_block),
        "launch__shared_mem_per_block": float(shared),
        "launch__shared_mem_per_block_allocated": float(occupancy.shared_allocated),
        "launch__shared_mem_config_size": float(occupancy.shared_config),
        "launch__occupancy_limit_blocks": float(limits["blocks"]),
        "launch__occupancy_limit_warps": float(limits["warps"]),
        "launch__occupancy_limit_registers": float(limits["registers"]),
        "launch__occupancy_limit_shared_mem": float(limits["shared memory"]),
        "launch__occupancy_limit_barriers": float(limits["barriers"]),
        "launch__waves_per_multiprocessor": occupancy.waves(counts.blocks, hardware.sm_count),
        "sm__maximum_warps_avg_per_active_cycle": float(occupancy.warps),
        "sm__maximum_warps_per_active_cycle_pct": 100 * occupancy.fraction,
    }


class CounterTable:
    """The counters with masks of instructions by opcode, memory access and pipe."""

    def __init__(self, counts: Counts) -> None:
        instructions = counts.program.instructions
        self.counts = counts
        self.opcodes = np.array([instruction.opcode for instruction in instructions], dtype=object)
        accesses = [ACCESSES.get(instruction.opcode, ("", "")) for instruction in instructions]
        self.spaces = np.array([space for space, _ in accesses], dtype=object)
        self.ops = np.array([op for _, op in accesses], dtype=object)
        self.pipes = np.array([_pipe(instruction) for instruction in instructions], dtype=object)
        # Instructions that pass the data stage without a memory access: shuffles and S2R of thread indices.
        self.passing = self.of("SHFL") | (self.of("S2R") & (self.pipes == "lsu"))
        self.bypassing = np.array(["BYPASS" in instruction.modifiers for instruction in instructions], dtype=bool)
        self.all = np.ones(len(instructions), dtype=bool)

    def sum(self, name: str, chosen: np.ndarray) -> float:
        """One counter, summed over the instructions of a mask."""
        return float(self.counts.table[chosen, FIELDS.index(name)].sum())

    def of(self, *opcodes: str) -> np.ndarray:
        """The instructions with one of these opcodes, as a mask."""
        return np.isin(self.opcodes, opcodes)

    def accesses(self, space: str, *ops: str) -> np.ndarray:
        """Accesses to "global", "local" or "shared" memory, by these operations or by any, as a mask."""
        chosen = self.spaces == space
        return chosen & np.isin(self.ops, ops) if ops else chosen

    def idle_passes(self, chosen: np.ndarray) -> float:
        """Passes of the data stage without an access: ``passing`` instructions, and shared accesses with no active
        lane.
        """
        idle = (self.spaces == "shared") & chosen
        return self.sum("executed", self.passing & chosen) + self.sum("executed", idle) - self.sum("requests", idle)

    def by_pipe(self, chosen: np.ndarray) -> dict[str, float]:
        """Warp instructions by pipe; "fma" includes "fmaheavy", the integer instructions of its heavy half."""
        found = {pipe: self.sum("executed", chosen & (self.pipes == pipe)) for pipe in (*PIPES, "fmaheavy")}
        found["fma"] += found["fmaheavy"]
        return found


def _requested(op: str) -> tuple[str, ...]:
    """The operations whose requests to L1 ncu counts as ``op``: asynchronous copies count as loads."""
    return ("ld", "ldgsts") if op == "ld" else (op,)


def _pipe(instruction: Instruction) -> str:
    """The pipe of an instruction. S2R reads thread indices through the LSU and block indices through the ADU."""
    if instruction.opcode == "S2R" and any("CTAID" in operand.name.upper() for operand in instruction.operands):
        return "adu"
    return pipe_of(instruction.opcode, instruction.modifiers) or ""


def _instruction_metrics(table: CounterTable, chosen: np.ndarray) -> dict[str, float]:
    executed, threads, on = (table.sum(name, chosen) for name in ("executed", "threads", "threads_on"))
    found = {
        "smsp__inst_executed.sum": executed,
        "smsp__thread_inst_executed.sum": threads,
        "smsp__thread_inst_executed_pred_on.sum": on,
        "smsp__thread_inst_executed_per_inst_executed.ratio": threads / executed if executed else 0.0,
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": on / executed if executed else 0.0,
    }
    for space in ("global", "local"):
        for op in _OPS[space]:
            of_op, requested = table.accesses(space, op) & chosen, table.accesses(space, *_requested(op)) & chosen
            for what in ("requests", "sectors"):
                found[_T.format(what=what, space=space, op=op)] = table.sum(what, requested)
            found[f"smsp__inst_executed_op_{space}_{op}.sum"] = table.sum("executed", of_op)
    copies = table.of("LDGSTS") & chosen
    found["smsp__inst_executed_op_ldgsts.sum"] = table.sum("executed", copies)
    for what in ("requests", "sectors"):
        name = _T.format(what=what, space="global", op="ldgsts_cache_access")
        found[name] = table.sum(what, copies & ~table.bypassing)
    matrices = table.of("LDSM")  # among the wavefronts of loads, but instructions of their own
    found["smsp__inst_executed_op_ldsm.sum"] = table.sum("executed", matrices & chosen)
    for name, column, prefix in (
        (_WAVEFRONTS, "wavefronts", "op_"),
        (_CONFLICTS, "conflicts", "op_"),
        (_SHARED, "executed", ""),
    ):
        for op in _OPS["shared"]:
            if name == _SHARED and op == "ldgsts":
                continue
            of_op = table.of("LDGSTS") if op == "ldgsts" else table.accesses("shared", op)
            if name == _SHARED:
                of_op = of_op & ~matrices
            found[f"{name}_{prefix}{op}.sum"] = table.sum(column, of_op & chosen)
        if name != _SHARED:
            found[f"{name}.sum"] = sum(found[f"{name}_{prefix}{op}.sum"] for op in _OPS["shared"])
    found[f"{_WAVEFRONTS}.sum"] += table.idle_passes(chosen)
    by_pipe = table.by_pipe(chosen)
    return found | {f"sm__inst_executed_pipe_{pipe}.sum": by_pipe[pipe] for pipe in PIPES}


def _cache_metrics(table: CounterTable) -> dict[str, float]:
    counts = table.counts
    everything = table.sum("l2_sectors", table.all)
    found = {
        "lts__t_sectors_srcunit_tex.sum": everything,
        "lts__t_sectors_srcunit_tex_lookup_miss.sum": float(counts.l2_misses),
        "lts__t_sectors_srcunit_tex_lookup_hit.sum": max(0.0, everything - counts.l2_misses),
        "dram__bytes_read.sum": float(SECTOR * counts.sectors_read),
        "dram__bytes_write.sum": float(SECTOR * counts.sectors_written),
    }
    for name, op in (("read", "ld"), ("write", "st"), ("red", "red"), ("atom", "atom")):
        of_op = table.accesses("global", *_requested(op)) | table.accesses("local", op)
        found[f"lts__t_sectors_srcunit_tex_op_{name}.sum"] = table.sum("l2_sectors", of_op)
    for space in ("global", "local"):
        loads, name = table.accesses(space, *_requested("ld")), f"l1tex__t_sectors_pipe_lsu_mem_{space}_op_ld_lookup"
        hits = table.sum("l1_hits", loads)
        found[f"{name}_hit.sum"], found[f"{name}_miss.sum"] = hits, table.sum("sectors", loads) - hits
    return found
