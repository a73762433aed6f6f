"""Rows of the store's tables from ``Run`` and ``Measurement``, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from warpwise.lab.store.records import Measurement, Run
from warpwise.lab.timing.samples import Clock
from warpwise.lab.timing.stats import Interval

RUN_COLUMNS = (
    "id", "started", "finished", "op", "device", "driver", "warpwise", "torch", "triton", "cuda", "kernels_commit",
    "kernels_dirty", "made_by", "environment",
)  # fmt: skip
MEASUREMENT_COLUMNS = (
    "id", "run", "taken", "op", "device", "name", "kind", "language", "case", "sizes", "values", "layout", "dtype",
    "verdict", "message", "median", "low", "high", "samples", "mode", "bytes", "flops", "floor", "bound", "ratio",
    "ratio_low", "ratio_high", "clock_low", "clock_median", "clock_highest", "converged", "throttled", "exposed",
    "source", "counters",
)  # fmt: skip


def listed(columns: Sequence[str], table: str = "") -> str:
    """``columns`` quoted for SQL, since two of them are keywords."""
    return ", ".join(f'{table}."{column}"' if table else f'"{column}"' for column in columns)


def stamp(moment: datetime) -> str:
    """A time as stored: UTC, to the microsecond, sortable as text. A time without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return aware.astimezone(timezone.utc).isoformat(timespec="microseconds")


@lru_cache(maxsize=4096)
def _mapping(text: str) -> Mapping[str, Any]:
    return MappingProxyType(json.loads(text))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def run_row(run: Run) -> dict[str, Any]:
    """The columns of a run without an id."""
    return {
        "started": stamp(run.started),
        "finished": stamp(run.finished) if run.finished else None,
        "op": run.op,
        "device": run.device,
        "driver": run.driver,
        "warpwise": run.warpwise,
        "torch": run.torch,
        "triton": run.triton,
        "cuda": run.cuda,
        "kernels_commit": run.commit,
        "kernels_dirty": int(run.dirty),
        "made_by": run.made_by,
        "environment": _json(dict(run.environment)),
    }


def run_of(row: Sequence[Any]) -> Run:
    """The run in a row of ``RUN_COLUMNS``."""
    (
        number,
        started,
        finished,
        op,
        device,
        driver,
        warpwise,
        torch,
        triton,
        cuda,
        commit,
        dirty,
        made_by,
        environment,
    ) = row
    return Run(
        op,
        device,
        datetime.fromisoformat(started),
        driver,
        warpwise,
        torch,
        triton,
        cuda,
        commit,
        bool(dirty),
        made_by,
        _mapping(environment),
        datetime.fromisoformat(finished) if finished else None,
        f"r{number}",
    )


def measurement_row(measurement: Measurement, run: Run) -> dict[str, Any]:
    """The columns of a measurement of ``run``."""
    ratio, clock = measurement.ratio, measurement.clock
    return {
        "run": int(run.id[1:]),
        "taken": stamp(measurement.taken),
        "op": run.op,
        "device": run.device,
        "name": measurement.name,
        "kind": measurement.kind,
        "language": measurement.language,
        "case": measurement.case,
        "sizes": _json(dict(measurement.sizes)),
        "values": measurement.values,
        "layout": measurement.layout,
        "dtype": measurement.dtype,
        "verdict": measurement.verdict,
        "message": measurement.message,
        "median": measurement.median,
        "low": measurement.low,
        "high": measurement.high,
        "samples": measurement.samples,
        "mode": measurement.mode,
        "bytes": measurement.bytes,
        "flops": measurement.flops,
        "floor": measurement.floor,
        "bound": measurement.bound,
        "ratio": ratio and ratio.median,
        "ratio_low": ratio and ratio.low,
        "ratio_high": ratio and ratio.high,
        "clock_low": clock and clock.low,
        "clock_median": clock and clock.median,
        "clock_highest": clock and clock.highest,
        "converged": int(measurement.converged),
        "throttled": int(measurement.throttled),
        "exposed": int(measurement.exposed),
        "source": measurement.source,
        "counters": _json(dict(measurement.counters)) if measurement.counters else None,
    }


def measurement_of(row: Sequence[Any]) -> Measurement:
    """The measurement in a row of ``MEASUREMENT_COLUMNS``."""
    (
        number,
        run,
        taken,
        op,
        device,
        name,
        kind,
        language,
        case,
        sizes,
        values,
        layout,
        dtype,
        verdict,
        message,
        median,
        low,
        high,
        samples,
        mode,
        size,
        flops,
        floor,
        bound,
        ratio,
        ratio_low,
        ratio_high,
        clock_low,
        clock,
        clock_highest,
        converged,
        throttled,
        exposed,
        source,
        counters,
    ) = row
    return Measurement(
        name,
        verdict,
        datetime.fromisoformat(taken),
        kind,
        language,
        case,
        _mapping(sizes),
        values,
        layout,
        dtype,
        message,
        median,
        low,
        high,
        samples,
        mode,
        size,
        flops,
        floor,
        bound,
        Interval(ratio, ratio_low, ratio_high) if ratio is not None else None,
        Clock(clock_low, clock, clock_highest) if clock is not None else None,
        bool(converged),
        bool(throttled),
        bool(exposed),
        source,
        _mapping(counters) if counters else MappingProxyType({}),
        op,
        device,
        f"r{run}",
        number,
    )
