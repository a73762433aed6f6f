"""Nsight Compute's counters of the rungs, from ``ncu/OP.json`` beside a results file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = 1
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
LOAD_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
STORES = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
STORE_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"
INSTRUCTIONS = "smsp__inst_executed.sum"
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


@dataclass(frozen=True)
class LaunchCounters:
    """One launch of a rung: kernel, grid, registers per thread, shared memory per block in bytes, and ncu's metrics."""

    expression: str
    grid: tuple[int, ...]
    registers: int
    shared_bytes: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class NcuCounters:
    """The counters of an operation: launches by (rung, case, dtype), and the environment."""

    launches: Mapping[tuple[str, str, str], tuple[LaunchCounters, ...]]
    environment: Mapping[str, Any]

    def at(self, rung: str, case: str, dtype: str) -> tuple[LaunchCounters, ...]:
        """The rung's launches at a case and dtype, in order; empty if not measured."""
        return self.launches.get((rung, case, dtype), ())

    def sum(self, rung: str, case: str, dtype: str, *metrics: str) -> float | None:
        """The sum of ``metrics`` over the rung's launches, or None if one of them is missing."""
        launches = self.at(rung, case, dtype)
        if not launches or any(name not in launch.metrics for launch in launches for name in metrics):
            return None
        return sum(launch.metrics[name] for launch in launches for name in metrics)

    def moved(self, rung: str, case: str, dtype: str) -> float | None:
        """Bytes between L2 and DRAM, or None if not measured."""
        return self.sum(rung, case, dtype, READ, WRITTEN) or None


def read_counters(path: Path, device: str) -> NcuCounters | None:
    """The counters in ``path``; None if there is no such file, or for another device or schema."""
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path}: expected ncu's counters as JSON, got invalid JSON: {error}") from error
    if data.get("schema") != SCHEMA or data["environment"].get("device") != device:
        return None
    found: dict[tuple[str, str, str], tuple[LaunchCounters, ...]] = {}
    for point in data["points"]:
        launches = []
        for launch in point["launches"]:
            values = zip(data["metrics"], launch["values"], strict=True)
            shared = launch["shared_bytes"] + launch["static_shared"]
            metrics = {name: float(value) for name, value in values if value is not None}
            launches.append(
                LaunchCounters(launch["expression"], tuple(launch["grid"]), launch["registers"], shared, metrics)
            )
        found[point["rung"], point["case"], point["dtype"]] = tuple(launches)
    return NcuCounters(found, data["environment"])
