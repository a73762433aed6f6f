"""Execute a launch's machine code on the CPU and put its counters together into an ``Explanation``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from warpwise.device import Profile
from warpwise.lab.explain.hints import hints
from warpwise.lab.explain.model import source_lines
from warpwise.lab.explain.model.explanation import Agreement, Explanation, Resources
from warpwise.lab.explain.model.hardware import hardware
from warpwise.lab.explain.model.metrics import line_metrics, metrics
from warpwise.lab.explain.model.occupancy import occupancy
from warpwise.lab.explain.model.time_model import predict
from warpwise.lab.explain.options import BUDGET, Options

if TYPE_CHECKING:
    from warpwise.lab.explain.hints.hint import Hint
    from warpwise.lab.explain.model.time_model import Prediction
    from warpwise.machine.counts import Counts
    from warpwise.machine.program import Program

_SLOWER = 3.0  # upper bound of the ratio: time to execute the machine code over time of the checked run
ATOMICS = ("ATOM", "ATOMG", "RED", "REDG")


@dataclass
class MachineRun:
    """The executed machine code of one launch, and the comparison of its outputs with the checked run's."""

    counts: Counts | None = None
    unsupported: str = ""
    agrees: Agreement = field(default_factory=lambda: Agreement("not compared", "the checked run was left out"))


def execute(
    program: Program,
    grid: Any,
    block: Any,
    shared: int,
    arguments: Sequence[Any],
    constants: Mapping[str, bytes],
    options: Options,
    checked_seconds: float | None,
) -> MachineRun:
    """Execute the requested number of blocks, or as many as fit into the budget; report what cannot be executed."""
    from warpwise import machine

    total = grid[0] * grid[1] * grid[2]

    def run(blocks: int | None) -> Counts:
        return machine.run(
            program, grid, block, shared, arguments, constants=constants, blocks=blocks, timeout=options.timeout
        )

    try:
        if options.blocks is not None:
            wanted = None if options.blocks == "all" or options.blocks >= total else int(options.blocks)
            return MachineRun(run(wanted))
        if checked_seconds is not None and _SLOWER * checked_seconds <= options.budget:
            return MachineRun(run(None))
        try:
            first = run(min(total, max(1, round(_PILOT * min(1.0, options.budget / BUDGET)))))
            if first.blocks_run >= total:
                return MachineRun(first)
            fit = int(options.budget / max(first.seconds / first.blocks_run, 1e-9))
            if fit < total:
                return MachineRun(run(fit) if fit >= 2 * first.blocks_run else first)
        except machine.NeedsAllBlocks:
            pass
        return MachineRun(run(None))
    except machine.MachineFault as error:
        return MachineRun(unsupported=str(error), agrees=Agreement("not compared", "the machine code was not executed"))


_PILOT = 8  # blocks executed first, to estimate the time of one; fewer if the budget is below the default


def timed(seconds: dict[str, float], what: str, call: Callable[[], Any]) -> Any:
    """``call()``, whose time is stored in ``seconds[what]``."""
    started = time.perf_counter()
    made = call()
    seconds[what] = time.perf_counter() - started
    return made


def assembled(
    kernel: str,
    profile: Profile,
    grid: Any,
    block: Any,
    resources: Resources,
    program: Program,
    run: MachineRun,
    file: str,
    text: str,
    options: Options,
    seconds: Mapping[str, float],
) -> Explanation:
    """Build the explanation of a run: metrics, lines, occupancy, prediction, hints and caveats."""
    from warpwise import machine

    threads = block[0] * block[1] * block[2]
    needs = (threads, resources.registers, resources.static_shared, resources.dynamic_shared)
    fits = occupancy(profile.name, *needs)
    everywhere = {
        other.name: occupancy(other.name, *needs) for other in Profile.known() if other.compute_capability >= (7, 5)
    }
    counts = run.counts
    by_line = line_metrics(counts) if counts is not None else {}
    sources, names = source_lines.texts(program, file, text)
    lines = source_lines.lines(program, counts, by_line, sources, names)
    known: dict[str, float] = {}
    expected: Prediction | None = None
    found: tuple[Hint, ...] = ()
    if counts is not None:
        model = hardware(profile.name)
        known = metrics(counts, fits, model)
        expected = replace(predict(counts, fits, model), excluded=_excluded(counts, names, file))
        named = {theirs: sources[ours] for theirs, ours in names.items()}
        polling = {
            (instruction.file, instruction.line)
            for loop in program.spins
            for instruction in program.instructions[loop.start : loop.stop]
        }
        advice = [
            hint
            for hint in hints(counts, by_line, fits, expected, model, named)
            if (hint.file, hint.line) not in polling
        ]
        found = tuple(replace(hint, file=names.get(hint.file, hint.file)) for hint in advice)
    return Explanation(
        kernel,
        profile.name,
        grid,
        block,
        resources,
        known,
        lines,
        fits,
        everywhere,
        expected,
        found,
        run.agrees,
        caveats(lines, names.get(file, file), run, options, expected.excluded if expected else ""),
        counts,
        (),
        run.unsupported,
        sources,
        dict(seconds),
        names.get(file, file),
        fidelity=machine.fidelity(program, counts),
    )


def _excluded(counts: Counts, names: Mapping[str, str], file: str) -> str:
    """The polling loops that were executed, as text; the line is one of ``file`` if the loop was inlined into it."""
    executed, places = counts.column("executed"), dict[str, None]()
    for loop in counts.program.spins:
        if not executed[loop.start : loop.stop].any():
            continue
        instruction = counts.program.instructions[loop[-1]]
        frames = [(instruction.file, instruction.line), *instruction.inlined_at]
        own = [frame for frame in frames if names.get(frame[0]) == names.get(file, file)]
        name, line = (own or frames)[0]
        places[f"{PurePath(name).name}:{line}"] = None
    return f"the time of waits for other threads, at {', '.join(places)}" if places else ""


def caveats(lines: Sequence[Any], own: str, run: MachineRun, options: Options, excluded: str = "") -> tuple[str, ...]:
    """What the counters of this run do not cover."""
    found = []
    if excluded:
        found.append(
            f"The predicted time does not include {excluded}: it depends on when the other threads arrive. "
            "One iteration of such a loop is counted for each warp."
        )
    if run.unsupported:
        found.append(
            f"Not executed: {run.unsupported}. Resources and occupancy are still those of the compiled kernel."
        )
    if options.checks == "none":
        found.append("The kernel was not checked: the counters of an incorrect kernel may mislead.")
    if run.agrees.status == "no":
        found.append(
            "The outputs of the machine code and of the checked run differ, so these counters may be wrong: "
            f"{run.agrees.text}."
        )
    counts = run.counts
    if counts is None:
        return tuple(found)
    if idle := source_lines.unreached(counts, lines, own):
        found.append(f"Not executed with these arguments, so not counted: {idle}.")
    if counts.sampled:
        found.append(
            f"{counts.blocks_run:,} of {counts.blocks:,} blocks were executed and the counters scaled up; "
            "blocks that do different work are miscounted."
        )
    found.append("Blocks ran one after another: contention and L2 hits may differ on a GPU.")
    found.append(
        "L1 and L2 hits come from cache models; stall cycles come from nominal latencies of a warp alone on its SM."
    )
    return tuple(found)
