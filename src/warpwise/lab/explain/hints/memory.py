"""Hints on global and local memory: coalescing, reuse, vectors, spills, atomics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpwise.lab.explain.hints.hint import WORTH, Hint, LaunchAnalysis, percent, stride
from warpwise.lab.explain.model import contention, stages
from warpwise.lab.explain.model.metrics import SECTOR
from warpwise.lab.explain.model.time_model import distinct_sectors

_LINE = 128  # bytes per tag lookup
_VECTOR = 16  # bytes of a lane's widest access
_NAMES = {
    "ld": ("load", "reads"),
    "st": ("store", "writes"),
    "red": ("atomic", "updates"),
    "atom": ("atomic", "updates"),
}
_SCATTERED = (
    "Let neighbouring lanes access neighbouring elements: swap the roles of threadIdx.x and y, or go through a tile in "
    "shared memory."
)
_SAME_BANKS = (
    "L1 serves 8 lanes of 16 bytes, 16 lanes of 8 bytes or 32 lanes of up to 4 bytes at a time. Let these access "
    "different places of their 128-byte lines: exchange vectors between lanes (XOR with the row's number), or pad the "
    "rows."
)
_DENSE = (
    "Let all lanes of a warp access one contiguous range that is aligned to 32 bytes: short rows, divergent lanes and "
    "odd offsets split it."
)


def _scatters(requests: float, sectors: float, ideal: float) -> bool:
    return sectors >= 1.5 * ideal and sectors - ideal >= requests


def uncoalesced(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Source lines whose requests access more sectors than their bytes fill."""
    for op, (noun, verb) in _NAMES.items():
        for place, chosen in launch.places(launch.table.accesses("global", op)).items():
            requests, sectors, ideal = (launch.sum(name, chosen) for name in ("requests", "sectors", "ideal_sectors"))
            if not requests or not _scatters(requests, sectors, ideal):
                continue
            narrowest = ideal * SECTOR / _LINE  # wavefronts that the bytes themselves need
            passes = _passes(launch, chosen)
            gain = launch.speedup(
                {
                    "L1 tag stage": launch.without("L1 tag stage", max(0.0, launch.sum("tags", chosen) / 4 - requests)),
                    "L1 data stage": launch.without("L1 data stage", max(0.0, passes - max(requests, narrowest))),
                    "L2": launch.without(
                        "L2", launch.sum("l2_sectors", chosen) * (1 - ideal / sectors) * (1 + (op == "st"))
                    ),
                }
            )
            step, on = stride(launch.sample(chosen)), launch.sum("threads_on", chosen)
            # Consecutive addresses that still access more sectors: split by divergence, a short row, or sector
            # alignment.
            dense = bool(step) and on > 0 and abs(step or 0) <= launch.sum("bytes", chosen) / on
            apart = f"; neighbouring lanes {verb[:-1]} addresses {abs(step):,} bytes apart" if step else ""
            text = (
                f"a warp's {noun} touches {sectors / requests:.1f} sectors where {ideal / requests:.1f} would hold its "
                f"bytes{apart}. (l1tex__t_sectors / requests = {sectors / requests:.1f})"
            )
            metric = f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"
            yield Hint(
                "OPT" if gain >= WORTH else "INF",
                f"uncoalesced {noun}s",
                text,
                gain,
                metric,
                sectors,
                *place,
                _DENSE if dense else _SCATTERED,
            )


def l1_conflicts(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Source lines whose requests fill their sectors, but whose lines of L1 have bank conflicts."""
    for op in ("ld", "st"):
        noun = _NAMES[op][0]
        for place, chosen in launch.places(launch.table.accesses("global", op)).items():
            requests, sectors, ideal = (launch.sum(name, chosen) for name in ("requests", "sectors", "ideal_sectors"))
            if not requests or _scatters(requests, sectors, ideal):
                continue
            passes, least = _passes(launch, chosen), max(requests, ideal * SECTOR / _LINE)
            if passes < 1.5 * least or passes - least < requests:
                continue
            gain = launch.speedup({"L1 data stage": launch.without("L1 data stage", passes - least)})
            text = (
                f"a warp's {noun} takes {passes / requests:.1f} wavefronts of L1 where {least / requests:.1f} would "
                f"hold its bytes: lanes that L1 serves together access different words of one bank in several lines. "
                f"(l1tex__data_pipe_lsu_wavefronts)"
            )
            yield Hint(
                "OPT" if gain >= WORTH else "INF",
                f"bank conflicts of global {noun}s",
                text,
                gain,
                "l1tex__data_pipe_lsu_wavefronts.sum",
                passes,
                *place,
                _SAME_BANKS,
            )


def _passes(launch: LaunchAnalysis, chosen: np.ndarray) -> float:
    """Passes of the data stage."""
    return sum(stages.instruction_passes(launch.table, int(i)) for i in np.flatnonzero(chosen))


def reused(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Loads that read the same sectors repeatedly, from L1 or L2 instead of shared memory or registers."""
    loads = launch.table.accesses("global", "ld")
    asked, distinct = launch.sum("ideal_sectors", loads), distinct_sectors(launch.counts)[0]
    if not distinct or asked < 1.9 * distinct:
        return
    place, chosen = max(launch.places(loads).items(), key=lambda item: launch.sum("ideal_sectors", item[1]))
    times = asked / distinct
    # Assume that a value in a register is used four times, or as often as it is read.
    saved = 1 - 1 / min(4.0, times)
    requests = launch.sum("requests", loads)
    path = {
        name: launch.without(name, saved * requests)
        for name in ("L1 tag stage", "L1 data stage", "LSU issue", "issue slots")
    }
    gain = launch.speedup(path | {"L2": launch.without("L2", saved * launch.sum("l2_sectors", loads) / 4)})
    text = (
        f"loads read at least {asked:,.0f} sectors, of which {distinct:,} are distinct: each is fetched "
        f"{times:,.0f} times. This line reads {percent(launch.sum('ideal_sectors', chosen) / asked)} of them."
    )
    yield Hint(
        "OPT" if gain >= WORTH else "INF",
        "repeated loads of the same data",
        text,
        gain,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        launch.sum("sectors", loads),
        *place,
        "Load a tile once into shared memory, or keep values in registers for several uses.",
    )


def narrow(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Neighbouring lanes that access neighbouring elements of less than 16 bytes each."""
    found: list[tuple[float, float, str, tuple[str, int]]] = []
    requests_all = bytes_all = 0.0
    for op in ("ld", "st"):
        for place, chosen in launch.places(launch.table.accesses("global", op)).items():
            requests, on = launch.sum("requests", chosen), launch.sum("threads_on", chosen)
            width = launch.sum("bytes", chosen) / on if on else _VECTOR
            sectors, ideal = launch.sum("sectors", chosen), launch.sum("ideal_sectors", chosen)
            dense = requests and ideal * SECTOR >= 0.75 * launch.sum("bytes", chosen)
            if not dense or width > 8 or sectors > 1.3 * ideal:
                continue
            found.append((requests, width, op, place))
            requests_all, bytes_all = requests_all + requests, bytes_all + launch.sum("bytes", chosen)
    if not found or launch.prediction.time < 2 * launch.hardware.launch_s:
        return
    width = max(each[1] for each in found)
    fewer = width / _VECTOR
    saved = requests_all * (1 - fewer)
    share = bytes_all / launch.sum("bytes", launch.table.accesses("global", "ld", "st", "ldgsts"))
    gain = launch.speedup(
        {
            "LSU issue": launch.without("LSU issue", saved),
            "issue slots": launch.without("issue slots", saved),
            "latency": 1 - share * (1 - fewer),  # wider accesses shorten the stalls of these bytes alone
        }
    )
    if gain < WORTH:
        return
    _, width, op, place = max(found)
    text = (
        f"{requests_all:,.0f} requests of {width:.0f} bytes per lane to consecutive addresses; with 16 there would "
        f"be {requests_all * fewer:,.0f}, with {1 / fewer:.0f} times the bytes in flight."
    )
    yield Hint(
        "OPT",
        "narrow accesses",
        text,
        gain,
        f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum",
        requests_all,
        *place,
        "Give each thread several consecutive elements and read them as one float4 (16 bytes), where rows are aligned.",
    )


def local(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Local memory: spilled registers, and arrays with a run-time index."""
    everywhere = launch.table.accesses("local")
    requests = launch.sum("requests", everywhere)
    if not requests:
        return
    places = launch.places(everywhere)
    place = max(places, key=lambda each: launch.sum("requests", places[each]))
    gain = launch.speedup(
        {
            "L1 tag stage": launch.without("L1 tag stage", requests),
            "L1 data stage": launch.without("L1 data stage", requests),
            "LSU issue": launch.without("LSU issue", requests),
            "issue slots": launch.without("issue slots", requests),
            "L2": launch.without("L2", launch.sum("l2_sectors", everywhere)),
        }
    )
    program, registers = launch.counts.program, launch.occupancy.registers
    sectors = launch.sum("sectors", everywhere)
    if program.spill_stores:
        title, what = "spilled registers", f"the kernel spills: {registers} registers per thread are not enough, and"
        idea = "Use a smaller tile per thread, or allow more registers by __launch_bounds__."
    elif (launch.places(launch.table.all)[place] & launch.table.of("CALL")).any():
        title, what = (
            "stack",
            "a call that is not inlined stores registers and arguments on the stack, in local memory;",
        )
        idea = "Inline the function, replace recursion by a loop, and remove printf from timed kernels."
    else:
        title, what = (
            "local memory",
            "a per-thread array is in local memory, because one of its indices is not a compile-time constant;",
        )
        idea = "Unroll the loops that index it, so that every index is a constant and the array fits in registers."
    text = f"{what} {requests:,.0f} requests move {sectors:,.0f} sectors"
    text += f" of {program.local_bytes} bytes per thread." if program.local_bytes else "."
    yield Hint(
        "OPT" if gain >= WORTH else "INF",
        title,
        text,
        gain,
        "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",
        launch.sum("requests", launch.table.accesses("local", "ld")),
        *place,
        idea,
    )


def atomics(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Contended atomics on few addresses of global memory."""
    for place, chosen in launch.places(launch.table.accesses("global", "red", "atom")).items():
        operations, targets = launch.sum("threads_on", chosen), contention.targets(launch.counts, chosen)
        if not targets or operations < 64 * targets:
            continue
        gain = launch.speedup({"atomics": 1 / 256})
        if gain < WORTH:
            continue
        places = f"at most {targets:,} addresses" if targets > 1 else "one address"
        text = f"{operations:,.0f} atomic operations update {places}; those on one address are serialised."
        yield Hint(
            "OPT",
            "contended atomics",
            text,
            gain,
            "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
            launch.sum("requests", chosen),
            *place,
            "Reduce within the block first (shuffles, or copies in shared memory), then use one atomic per block.",
        )
