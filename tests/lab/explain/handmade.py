"""Counts for tests: a few instructions with given counters; and the name of a metric."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from warpwise.device import Profile
from warpwise.lab.explain.hints import hints
from warpwise.lab.explain.hints.hint import Hint
from warpwise.lab.explain.model.hardware import Hardware, hardware
from warpwise.lab.explain.model.metrics import line_metrics
from warpwise.lab.explain.model.occupancy import Occupancy, occupancy
from warpwise.lab.explain.model.time_model import Prediction, predict
from warpwise.machine.counts import FIELDS, Buffer, Counts, Sample
from warpwise.machine.program import Control, Instruction, Operand, Program

H200: Hardware = hardware(Profile.of("sm_90"))
ALWAYS = Operand("predicate", index=7)
SOMETIMES = Operand("predicate", index=0)
FILE = "kernel.cu"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"


@dataclass(frozen=True)
class Row:
    """One instruction: "LDG.E.128" on a line, its counters, and where a branch goes."""

    text: str
    line: int = 1
    to: int | None = None
    guard: Operand = ALWAYS
    counters: dict[str, int] = field(default_factory=dict)


def row(
    text: str, line: int = 1, executed: int = 0, to: int | None = None, guard: Operand = ALWAYS, **counters: int
) -> Row:
    """``executed`` warps with all 32 lanes, unless the counters say otherwise."""
    whole = {"executed": executed, "threads": 32 * executed, "threads_on": 32 * executed}
    return Row(text, line, to, guard, whole | counters)


def load(
    text: str, line: int, requests: int, *, sectors: int, ideal: int, tags: int, bytes: int = 128, **more: int
) -> Row:
    """A memory instruction of ``requests`` requests; sectors, ideal sectors, tags and bytes are those of one."""
    counters = {
        "requests": requests, "sectors": sectors * requests, "ideal_sectors": ideal * requests, "tags": tags * requests,
        "bytes": bytes * requests, "l2_sectors": sectors * requests,
    }  # fmt: skip
    return row(text, line, requests, **(counters | more))


def made(
    *rows: Row,
    blocks: int = 1056,
    threads: int = 256,
    cycles: float = 100.0,
    samples: dict[int, tuple[Sample, ...]] | None = None,
    buffers: tuple[Buffer, ...] = (),
    registers: int = 32,
    **more: Any,
) -> Counts:
    """Counts of a launch of ``blocks`` blocks with these instructions."""
    instructions = []
    table = np.zeros((len(rows), len(FIELDS)), dtype=np.int64)
    for i, each in enumerate(rows):
        opcode, *modifiers = each.text.split(".")
        operands = () if each.to is None else (Operand("label", value=each.to),)
        instructions.append(
            Instruction(
                16 * i,
                FILE,
                each.line,
                each.guard,
                opcode,
                tuple(modifiers),
                operands,
                Control(1, False, 7, 7, 0),
                each.text,
            )
        )
        for name, value in each.counters.items():
            table[i, FIELDS.index(name)] = value
    spills = more.pop("spill_stores", 0)
    program = Program("kernel", (9, 0), tuple(instructions), registers, 0, 0, 0x210, (), {}, spill_stores=spills)
    known: dict[str, Any] = {
        "shared_bytes": 0, "blocks_run": blocks, "warps": blocks * threads // 32, "warp_cycles": cycles,
        "mean_warp_cycles": cycles, "sectors_read": 0, "sectors_written": 0, "l2_misses": 0, "barriers": 0,
        "seconds": 0.0,
    }  # fmt: skip
    return Counts(
        program=program,
        table=table,
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        blocks=blocks,
        samples=samples or {},
        buffers=buffers,
        **(known | more),
    )


def explained(
    counts: Counts, source: dict[str, list[str]] | None = None, **needs: int
) -> tuple[Occupancy, Prediction, list[Hint]]:
    """Occupancy, prediction and hints on an H200."""
    fits = occupancy("sm_90", counts.block[0], counts.program.registers, **needs)
    prediction = predict(counts, fits, H200)
    return fits, prediction, hints(counts, line_metrics(counts), fits, prediction, H200, source)


def sample(instruction: int, step: int, lanes: int = 0xFFFFFFFF, bytes: int = 4, start: int = 0) -> Sample:
    """A request whose lanes are ``step`` bytes apart."""
    addresses = tuple(start + step * lane for lane in range(32))
    return Sample(instruction, (0, 0, 0), 0, lanes, bytes, addresses, 32, 1)
