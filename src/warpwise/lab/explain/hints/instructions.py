"""Hints on the instructions themselves: divergence, waiting for loads, division, double precision."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from warpwise.lab.explain.hints.hint import WORTH, Hint, LaunchAnalysis, percent
from warpwise.lab.explain.model.metrics import SECTOR

_ISSUE = ("issue slots", "FMA", "ALU", "SFU (XU)", "LSU issue", "FP64")
_LANES = 32
_NOT_CODE = re.compile(r'"(?:\\.|[^"\\])*"|//.*|/\*.*?\*/')  # strings and comments, which may contain "/" and "%"


_EARLIER = "Start the copies earlier: use more stages, or larger tiles, so that a stage is loaded when it is needed."
_INDEPENDENT = (
    "Issue several independent loads before the first use: unroll the loop, load 16 bytes at a time, or compute "
    "several elements per thread."
)


def divergence(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Warps that run with few of their lanes."""
    table = launch.table
    executed, threads = table.sum("executed", table.all), table.sum("threads", table.all)
    if not executed or threads >= 0.75 * _LANES * executed:
        return
    useful = threads / (_LANES * executed)
    gain = launch.speedup(dict.fromkeys(_ISSUE, useful) | {"latency": useful})
    place, chosen = max(
        launch.places(table.all).items(),
        key=lambda item: launch.sum("executed", item[1]) - launch.sum("threads", item[1]) / _LANES,
    )
    here = launch.sum("threads", chosen) / launch.sum("executed", chosen)
    text = (
        f"a warp instruction runs for {threads / executed:.1f} of 32 threads on average; most are inactive here, where "
        f"{here:.1f} are active."
    )
    yield Hint(
        "OPT" if gain >= WORTH else "INF",
        "divergent warps",
        text,
        gain,
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        threads / executed,
        *place,
        "Assign the work to consecutive threads, so that all lanes of a warp take the same branch.",
    )


def waiting(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Latency limits: warps stall on loads, with too few bytes in flight."""
    prediction = launch.prediction
    wait = prediction.units.get("latency", 0.0)
    if wait < 0.6 * prediction.time:
        return
    stalls = launch.counts.column("stall_cycles")
    total = float(stalls.sum())
    if not total:
        return
    place, chosen = max(launch.places(launch.table.all).items(), key=lambda item: launch.sum("stall_cycles", item[1]))
    share = launch.sum("stall_cycles", chosen) / total
    loads = launch.table.accesses("global", "ld")
    read = launch.sum("bytes", loads)
    gain = launch.speedup({"latency": 0.25})
    flight = _bytes_in_flight(launch)
    rate = SECTOR * launch.counts.sectors_read / prediction.time
    text = f"a warp stalls {percent(share)} of its time at this line"
    if read and flight:
        text += (
            f"; about {flight / 1024:,.1f} KiB per SM are in flight on average, "
            f"and the predicted rate is {rate / 1e9:,.0f} of {launch.hardware.dram_bytes_per_s / 1e9:,.0f} GB/s"
        )
    at_barrier = (chosen & launch.table.of("SYNCS")).any()
    yield Hint(
        "OPT" if gain >= WORTH else "INF",
        "waiting for an mbarrier" if at_barrier else "waiting for memory" if read else "waiting",
        f"{text}.",
        gain,
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
        share,
        *place,
        _EARLIER if at_barrier else _INDEPENDENT,
    )


def _bytes_in_flight(launch: LaunchAnalysis) -> float:
    """Bytes in flight to one SM on average, by Little's law: load rate times DRAM latency."""
    loads = launch.table.accesses("global", "ld")
    if not launch.prediction.time:
        return 0.0
    rate = launch.sum("sectors", loads) * SECTOR / launch.hardware.sm_count / launch.prediction.time
    return rate * launch.hardware.latencies.dram / launch.hardware.clock_hz


def division(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Integer divisions and remainders by a run-time value: about twenty instructions each."""
    table = launch.table
    reciprocal = np.array(
        [each.opcode == "MUFU" and "RCP" in each.modifiers for each in launch.counts.program.instructions], dtype=bool
    )
    steps = table.of("I2F", "F2I", "CALL")
    everything = table.sum("executed", table.all)
    for place, of_line in launch.places(table.all).items():
        mine = of_line & steps
        integer = mine.any() and ((of_line & reciprocal).any() or (mine & table.of("CALL")).any())
        text = _NOT_CODE.sub("", launch.text(place))
        if not integer or not any(sign in text for sign in "/%"):
            continue
        cost = launch.sum("executed", of_line & ~(table.spaces != ""))
        share = cost / everything if everything else 0.0
        if share < 0.05:
            continue
        gain = launch.speedup(
            {
                "issue slots": 1 - share,
                "ALU": launch.without("ALU", launch.sum("executed", of_line & (table.pipes == "alu"))),
                "FMA": launch.without(
                    "FMA", launch.sum("executed", of_line & np.isin(table.pipes, ("fma", "fmaheavy")))
                ),
                "SFU (XU)": launch.without("SFU (XU)", launch.sum("executed", of_line & (table.pipes == "xu"))),
                "latency": 1 - launch.sum("stall_cycles", of_line) / max(1.0, table.sum("stall_cycles", table.all)),
            }
        )
        text = f"integer division is {percent(share)} of all instructions executed."
        yield Hint(
            "OPT" if gain >= WORTH else "INF",
            "integer division",
            text,
            gain,
            "smsp__inst_executed.sum",
            cost,
            *place,
            "Make the divisor a template argument, map the quotient to a grid dimension, or update it in a loop.",
        )


def double_precision(launch: LaunchAnalysis) -> Iterator[Hint]:
    """float64 arithmetic on values converted from float32, often by a literal without the suffix f."""
    table = launch.table
    widened = np.array(
        [each.opcode == "F2F" and {"F64", "F32"} <= set(each.modifiers) for each in launch.counts.program.instructions],
        dtype=bool,
    )
    double = table.pipes == "fp64"
    count = launch.sum("executed", double)
    if not count or not launch.sum("executed", widened):
        return
    gain = launch.speedup(
        {
            "FP64": 0.0,
            "SFU (XU)": launch.without("SFU (XU)", launch.sum("executed", widened)),
        }
    )
    place, _ = max(launch.places(double).items(), key=lambda item: launch.sum("executed", item[1]))
    yield Hint(
        "OPT" if gain >= WORTH else "INF",
        "unintended double precision",
        f"{count:,.0f} float64 instructions work on values converted from float32.",
        gain,
        "sm__inst_executed_pipe_fp64.sum",
        count,
        *place,
        "Write literals as 1.0f, and call expf, sqrtf and the other float functions.",
    )
