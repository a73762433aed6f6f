"""Loads that could start earlier: they follow a wait for other loads, on which they do not depend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from warpwise.lab.explain.hints.hint import WORTH, Hint, LaunchAnalysis, Place
from warpwise.machine.dataflow import Register, destinations, predecessors, sources, successors
from warpwise.machine.program import Instruction
from warpwise.machine.spins import polls

_LOADS = frozenset({"LDG", "LD"})
# After these a load may read what another thread has written, so it cannot precede them.
_ORDERED = frozenset({"BAR", "SYNCS", "MEMBAR", "ERRBAR", "ATOM", "ATOMG", "UCGABAR_WAIT", "WARPSYNC"})
_NONE: frozenset[int] = frozenset()


class LateLoad(NamedTuple):
    """Instructions: a ``load`` that follows the wait ``after`` for ``other`` loads, and the first ``use`` of it."""

    load: int
    after: int
    other: int
    use: int


class _State(NamedTuple):
    """What holds before an instruction.

    ``origins``: the loads on which a register depends, on some path; ``results``: the load whose result a register is;
    ``waited``: the loads whose results were used on every path, and by which instruction; ``decided``: a branch on some
    path depended on a load. All but ``origins`` are empty at the entry of a loop and after it.
    """

    origins: dict[Register, frozenset[int]]
    results: dict[Register, int]
    waited: dict[int, int]
    decided: bool


def late_loads(program: Sequence[Instruction]) -> list[LateLoad]:
    """The loads from global memory whose address was known before a wait for another load that precedes them.

    A load after a barrier, after an atomic, or after a branch that depends on a loaded value is not among them, nor is
    one whose wait is in an earlier iteration or another loop. Empty for programs with calls and indirect branches.
    """
    after = successors(program)
    if after is None:
        return []
    before = [[each for each in those if each < i] for i, those in enumerate(predecessors(after))]
    loops = _innermost(after)
    states: list[_State | None] = [None] * len(program)
    found: dict[int, tuple[int, int]] = {}  # the wait before each late load, and the load of that wait
    uses: dict[int, int] = {}
    for i, instruction in enumerate(program):
        known = [seen for each in before[i] if (seen := states[each]) is not None]
        if i and not known:
            continue
        state = _meet(known)
        if before[i] and loops[i] != loops[before[i][-1]]:
            state = _State(state.origins, {}, {}, False)
        read = sources(instruction)
        origins = _NONE.union(*(state.origins.get(each, _NONE) for each in read))
        loads = instruction.opcode in _LOADS and not polls(instruction)
        if loads and state.waited and not origins and not state.decided:
            other = max(state.waited, key=lambda each: state.waited[each])
            found[i] = state.waited[other], other
        for each in {state.results[register] for register in read if register in state.results}:
            state.waited.setdefault(each, i)
            uses.setdefault(each, i)
        if instruction.opcode in _ORDERED or polls(instruction):
            state = state._replace(results={}, waited={})
        if instruction.opcode in ("BRA", "EXIT", "RET") and origins:
            state = state._replace(decided=True)
        for register in destinations(instruction):
            state.results.pop(register, None)
            state.origins.pop(register, None)
            if loads:
                state.results[register], state.origins[register] = i, frozenset({i})
            elif origins:
                state.origins[register] = origins
        states[i] = state
    return [LateLoad(i, wait, other, uses[i]) for i, (wait, other) in found.items() if i in uses]


def _innermost(after: Sequence[Sequence[int]]) -> list[range | None]:
    """The shortest loop of each instruction: from the target of a backward branch to the branch."""
    found: list[range | None] = [None] * len(after)
    loops = [range(target, i + 1) for i, targets in enumerate(after) for target in targets if target <= i]
    for loop in sorted(loops, key=len, reverse=True):
        for i in loop:
            found[i] = loop
    return found


def _meet(states: Sequence[_State]) -> _State:
    """What holds after each of ``states``: a new state."""
    if not states:
        return _State({}, {}, {}, False)
    origins: dict[Register, frozenset[int]] = {}
    results: dict[Register, int] = {}
    for state in states:
        for register, loads in state.origins.items():
            origins[register] = origins.get(register, _NONE) | loads
        results |= state.results
    common = set(states[0].waited).intersection(*(state.waited for state in states[1:]))
    waited = {each: max(state.waited[each] for state in states) for each in common}
    return _State(origins, results, waited, any(state.decided for state in states))


def late(launch: LaunchAnalysis) -> Iterator[Hint]:
    """The source lines of late loads; the estimate: their latency passes with that of the loads before them."""
    program = launch.counts.program.instructions
    executed, stalls = launch.counts.column("executed"), launch.counts.column("stall_cycles")
    lines: dict[Place, list[LateLoad]] = {}
    for each in late_loads(program):
        if executed[each.load] and executed[each.after]:
            lines.setdefault(_place_of(program[each.load]), []).append(each)
    total = float(stalls.sum())
    for place, those in lines.items():
        waits = float(sum(stalls[use] for use in {each.use for each in those}))
        gain = launch.speedup({"latency": 1 - waits / total}) if total else 1.0
        other, wait = (_place_of(program[i]) for i in (those[0].other, those[0].after))
        earlier = "an earlier load of this line" if other == place else f"the load at {_shown(other)}"
        waits_for = "" if wait in (place, other) else f", which {_shown(wait)} waits for"
        one = len(those) == 1
        count, start = ("a load", "starts") if one else (f"{len(those)} loads", "start")
        addresses = "Its address does" if one else "Their addresses do"
        yield Hint(
            "OPT" if gain >= WORTH else "INF",
            "late loads",
            f"{count} of this line {start} only when {earlier} has arrived{waits_for}. {addresses} not depend on it, "
            "so the latencies add up.",
            gain,
            "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
            waits / total if total else 0.0,
            *place,
            "Move these loads before the first use of the other loads, and before any branch in between. If there is a "
            "store in between, declare the pointers __restrict__. If there are too few registers for all loads, load "
            "fewer elements at once, or allow more registers per thread (__launch_bounds__).",
        )


def _place_of(instruction: Instruction) -> Place:
    return instruction.file, instruction.line


def _shown(place: Place) -> str:
    return f"{PurePath(place[0]).name}:{place[1]}"
