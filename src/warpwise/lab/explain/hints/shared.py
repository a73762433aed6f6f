"""Hints on shared memory and barriers."""

from __future__ import annotations

from collections.abc import Iterator

from warpwise.lab.explain.hints.hint import WORTH, Hint, LaunchAnalysis, stride
from warpwise.machine.dataflow import predecessors, successors
from warpwise.machine.program import Instruction

# wgmma reads its tiles from shared memory; TMA reads one memory space and writes the other.
_ENGINES = frozenset({"UBLKCP", "UBLKRED", "UTMALDG", "UTMASTG", "UTMAREDG"})
_LOADS = (
    frozenset({"LDS", "LDSM", "LDG", "LD", "ATOMS", "ATOMG", "ATOM", "LDGSTS", "HGMMA", "QGMMA", "IGMMA", "BGMMA"})
    | _ENGINES
)
_STORES = frozenset({"STS", "STSM", "STG", "ST", "ATOMS", "ATOMG", "ATOM", "RED", "REDG", "LDGSTS"}) | _ENGINES


def conflicts(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Accesses to shared memory with bank conflicts."""
    for op, noun in (("ld", "load from"), ("st", "store to")):
        for place, chosen in launch.places(launch.table.accesses("shared", op)).items():
            requests, passes, ideal = (
                launch.sum(name, chosen) for name in ("requests", "wavefronts", "ideal_wavefronts")
            )
            if not requests or passes < 1.2 * ideal:
                continue
            gain = launch.speedup({"L1 data stage": launch.without("L1 data stage", passes - ideal)})
            step = stride(launch.sample(chosen))
            apart = f"; neighbouring lanes are {abs(step):,} bytes apart" if step else ""
            met = launch.sum("conflicts", chosen)
            text = (
                f"a {noun} shared memory takes {passes / requests:.1f} wavefronts where {ideal / requests:.1f} would "
                f"do{apart}: lanes access different words of one bank. ({met:,.0f} bank conflicts)"
            )
            yield Hint(
                "OPT" if gain >= WORTH else "INF",
                "bank conflicts",
                text,
                gain,
                f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum",
                met,
                *place,
                "Pad each row of the tile by one element, or permute columns by the row index (swizzle).",
            )


def crowded_atomics(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Atomics on shared memory with conflicts in a word or a bank."""
    for place, chosen in launch.places(launch.table.accesses("shared", "atom")).items():
        requests, passes = launch.sum("requests", chosen), launch.sum("wavefronts", chosen)
        if passes < 1.5 * requests or not requests:
            continue
        gain = launch.speedup({"L1 data stage": launch.without("L1 data stage", passes - requests)})
        text = (
            f"an atomic on shared memory takes {passes / requests:.1f} wavefronts: lanes update one word or one bank."
        )
        yield Hint(
            "OPT" if gain >= WORTH else "INF",
            "contended atomics in shared memory",
            text,
            gain,
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
            passes,
            *place,
            "Keep a copy for each warp or each lane, and add the copies at the end.",
        )


def through_shared(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Little reuse of values loaded from shared memory, where shared memory is the limiter."""
    loads = launch.table.accesses("shared", "ld")
    requests, passes = launch.sum("requests", loads), launch.sum("wavefronts", loads)
    products = launch.sum("executed", launch.table.of("FFMA", "HFMA2", "DFMA"))
    if not requests or 2 * products < requests or products > 8 * requests:
        return
    if launch.prediction.busiest not in ("L1 data stage", "LSU issue", "issue slots", "L1 tag stage"):
        return
    kept = products / requests / 16  # an 8 x 8 tile per thread with 16-byte loads: 16 multiply-adds per load
    gain = launch.speedup(
        {
            "L1 data stage": launch.without("L1 data stage", passes * (1 - 4 * kept) if kept < 0.25 else 0.0),
            "LSU issue": launch.without("LSU issue", requests * (1 - kept)),
            "issue slots": launch.without("issue slots", requests * (1 - kept)),
        }
    )
    if gain < WORTH:
        return
    place, _ = max(launch.places(loads).items(), key=lambda item: launch.sum("requests", item[1]))
    text = f"each load from shared memory serves {products / requests:.1f} multiply-adds; an 8 x 8 tile gives 16."
    yield Hint(
        "OPT",
        "little reuse of values from shared memory",
        text,
        gain,
        "smsp__inst_executed_op_shared_ld.sum",
        requests,
        *place,
        "Compute a tile of outputs per thread in registers, so that a loaded value is used by a whole row or column.",
    )


# Asynchronous instructions (TMA, wgmma, mbarriers): they access shared memory after they are issued, so the order of
# instructions does not show which accesses a barrier separates.
_ASYNC = frozenset({"UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "HGMMA", "IGMMA", "QGMMA", "SYNCS"})


def idle_barriers(launch: LaunchAnalysis) -> Iterator[Hint]:
    """Redundant barriers: no access before the barrier conflicts with one after it."""
    program = launch.counts.program.instructions
    executed = launch.counts.column("executed")
    after = successors(program)
    if after is None or any(instruction.opcode in _ASYNC for instruction in program):
        return
    before = predecessors(after)
    for i, instruction in enumerate(program):
        if instruction.opcode != "BAR" or not executed[i] or "SYNC" not in instruction.modifiers:
            continue
        earlier, later = _touched(program, i, before), _touched(program, i, after)
        if ("w" in earlier and later) or ("r" in earlier and "w" in later):
            continue
        waits = float(executed[i])
        yield Hint(
            "OPT",
            "redundant barrier",
            f"no access to shared or global memory before this barrier conflicts with one after it; "
            f"{waits:,.0f} warps waited.",
            None,
            "smsp__inst_executed.sum",
            waits,
            instruction.file,
            instruction.line,
            "Remove the barrier.",
        )


def _touched(program: tuple[Instruction, ...], start: int, next_of: list[list[int]]) -> set[str]:
    """ "r" and "w" if memory is read and written on some path from ``start`` to the next barrier or the end."""
    seen: set[int] = set()
    todo, found = list(next_of[start]), set()
    while todo:
        i = todo.pop()
        if i in seen:
            continue
        seen.add(i)
        opcode = program[i].opcode
        if opcode == "BAR":
            continue
        if opcode in _LOADS and "CONSTANT" not in program[i].modifiers:
            found.add("r")
        if opcode in _STORES:
            found.add("w")
        todo += next_of[i]
    return found
