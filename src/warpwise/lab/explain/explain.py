"""``explain``: a launch checked, compiled, its machine code executed on the same arguments, and what that says about time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from warpwise.cuda import Launcher
from warpwise.cuda.gpu import nvrtc
from warpwise.cuda.launch import copies, limits
from warpwise.cuda.launch.arguments import Binder, device_of
from warpwise.cuda.launch.kernel import Kernel
from warpwise.cuda.source.signature import parse
from warpwise.device import Profile
from warpwise.lab.explain import launches, source_view
from warpwise.lab.explain.explanation import Agreement, Explanation, Resources

if TYPE_CHECKING:
    from warpwise.lab.explain.hint import Hint
    from warpwise.lab.explain.time_model import Prediction
    from warpwise.machine.counts import Counts
    from warpwise.machine.program import Program

BUDGET = 5.0
Blocks = int | Literal["all"] | None
_SLOWER = 3.0  # the machine against the checked run of the same launch, at most
ATOMICS = ("ATOM", "ATOMG", "RED", "REDG")


@dataclass(frozen=True)
class Options:
    """How to explain: see ``explain``. ``keep`` leaves the outputs written, as a launch would."""

    target: str | None = None
    blocks: Blocks = None
    budget: float = BUDGET
    checks: str = "all"
    timeout: float = 60.0
    keep: bool = False

    def __post_init__(self) -> None:
        if self.blocks is not None and self.blocks != "all" and not (isinstance(self.blocks, int) and self.blocks > 0):
            raise ValueError(f"explain: blocks={self.blocks!r}: expected a number of blocks, 'all' or None")
        if not self.budget > 0:
            raise ValueError(f"explain: budget={self.budget!r}: expected seconds above 0")
        if self.target is not None:
            Profile.of(self.target)


def explain(
    launch: Any,
    *args: Any,
    target: str | None = None,
    blocks: Blocks = None,
    budget: float = BUDGET,
    checks: str = "all",
    timeout: float = 60.0,
    **more: Any,
) -> Any:
    """Why ``launch`` takes the time it takes: ``explain(kernel[grid, block], *args)`` of a CUDA or Triton kernel.

    The launch is emulated and checked first: what is found is raised, and nothing explained. Then it is compiled for
    ``target`` ("sm_90"), and the machine code is executed on copies of the same arguments, so that every width, merged
    access, spill and branch is the one that the GPU sees. The arguments themselves stay as they are; CUDA tensors are
    copied to the CPU. No GPU is needed.

    ``blocks`` is how many of the grid's blocks to execute, or "all"; without it as many as fit into ``budget`` seconds.
    ``checks`` is the checked run's, "none" to leave that run out for launches that are too large for it. ``timeout``
    (s) holds for each run. ``more`` are a Triton kernel's keyword arguments.

    ``explain("softmax:k03")`` explains a rung of a registered operation and returns ``Explanations``, one a launch;
    then ``more`` are ``explain_rung``'s.

    Raises the finding of the checked run, ``CompileError``, ``ArgumentError``, ``LaunchError``, and ``ImportError``
    with what to install where NVRTC or nvdisasm is missing.
    """
    options = Options(target, blocks, budget, checks, timeout)
    if isinstance(launch, str):
        from warpwise.lab.explain.rungs import explain_rung, named

        op, rung = named(launch)
        return explain_rung(
            op, rung, *args, target=target, blocks=blocks, budget=budget, checks=checks, timeout=timeout, **more
        )
    return explain_launch(launch, args, more, options)


def explain_launch(
    launcher: Any, args: Sequence[Any], meta: Mapping[str, Any] | None = None, options: Options = Options()
) -> Explanation:
    """``explain`` for a launch with its arguments apart; ``meta`` are a Triton kernel's keyword arguments."""
    if isinstance(launcher, Launcher):
        if meta:
            raise TypeError(f"{launcher.kernel.expression}: explain has no option {next(iter(meta))!r}")
        return _Cuda(launcher, tuple(args), options).explanation()
    if hasattr(getattr(launcher, "kernel", None), "jit_function"):
        from warpwise.lab.explain.triton import explain_triton

        return explain_triton(launcher, tuple(args), dict(meta or {}), options)
    raise TypeError(
        f"explain: expected a kernel with its grid, kernel[grid, block] of warpwise.cuda or kernel[grid] of "
        f"warpwise.triton, or 'op:rung'; got {type(launcher).__name__}"
    )


@dataclass
class Run:
    """The machine's run of one launch, and what was compared with it."""

    counts: Counts | None = None
    unsupported: str = ""
    agrees: Agreement = field(default_factory=lambda: Agreement("not compared", "the checked run was left out"))


class _Cuda:
    """One CUDA launch on its way to being explained."""

    def __init__(self, launcher: Launcher, args: tuple[Any, ...], options: Options) -> None:
        self.launcher, self.kernel, self.options = launcher, launcher.kernel, options
        self.profile = limits.target_profile(options.target or self.kernel.module.target)
        self.seconds: dict[str, float] = {}
        device = device_of(args, self.kernel.expression)
        self.original = args
        self.on_gpu = device is not None and device.type == "cuda"
        self.args = copies.to_cpu(args) if self.on_gpu else args

    def explanation(self) -> Explanation:
        launcher, kernel, checked = self.launcher, self.kernel, self.options.checks != "none"
        bounds = kernel.declaration.launch_bounds if kernel.declaration else None
        limits.check_launch(kernel.expression, launcher.grid, launcher.block, self.profile, bounds)
        arguments = kernel.binder(kernel.build()).cpu(self.args) if checked else None
        before = launches.Snapshot(arguments) if arguments is not None else None
        try:
            if checked:
                self._timed("checked run", self._check)
            after = launches.Snapshot(arguments) if arguments is not None else None
            compiled = self._timed("compilation", self._compile)
            limits.check_shared(kernel.expression, compiled.shared, launcher.shared_bytes, self.profile)
            program = self._timed("disassembly", lambda: _load(compiled))
            if arguments is None:
                arguments = _binder(kernel, compiled, program).cpu(self.args)
            given = before.rebased(arguments) if before is not None else arguments
            constants = {compiled.constants[name]: data for name, data in kernel.module.constants.values.items()}
            run = execute(
                program, launcher.grid, launcher.block, launcher.shared_bytes, given, constants, self.options,
                self.seconds.get("checked run"),
            )  # fmt: skip
        finally:
            if before is not None and not self.options.keep:
                before.put_back()
        if run.counts is not None:
            self.seconds["execution"] = run.counts.seconds
            if before is not None and after is not None and arguments is not None:
                adds = any(instruction.opcode in ATOMICS for instruction in program.instructions)
                run.agrees = launches.agreement(arguments, before, after, run.counts.outputs, run.counts.sampled, adds)
        if self.on_gpu and self.options.keep:
            launcher(*self.original)
        resources = Resources(
            compiled.registers, compiled.shared, launcher.shared_bytes, compiled.stack, compiled.spill_stores,
            compiled.spill_loads, len(program.instructions),
        )  # fmt: skip
        return assembled(
            kernel.expression, self.profile, launcher.grid, launcher.block, resources, program, run,
            kernel.module.file, kernel.module.text, self.options, self.seconds,
        )  # fmt: skip

    def _timed(self, what: str, call: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        made = call()
        self.seconds[what] = time.perf_counter() - started
        return made

    def _check(self) -> None:
        findings = self.launcher.check(*self.args, timeout=self.options.timeout, checks=self.options.checks)
        if findings:
            raise findings[0].error()

    def _compile(self) -> nvrtc.Compiled:
        wanted = tuple(sorted(self.kernel.module.constants.values))
        return nvrtc.compile(self.kernel.module, self.kernel.expression, self.profile.name, wanted)


def _load(compiled: nvrtc.Compiled) -> Program:
    from warpwise import machine

    program = machine.load_program(compiled.cubin, compiled.symbol)
    return replace(program, spill_stores=compiled.spill_stores)  # the cubin does not say; the assembler does


def _binder(kernel: Kernel, compiled: nvrtc.Compiled, program: Program) -> Binder:
    """What packs the arguments without the emulator's build: the cubin knows the parameters' sizes."""
    declared = kernel.declaration.parameters if kernel.declaration else ()
    sizes = [size for _, size in program.parameters]
    return Binder(kernel.expression, parse(compiled.function_type), sizes, declared)


def execute(
    program: Program, grid: Any, block: Any, shared: int, arguments: Sequence[Any], constants: Mapping[str, bytes],
    options: Options, checked_seconds: float | None,
) -> Run:  # fmt: skip
    """Execute as many blocks as were asked for, or as fit into the budget; says what the machine cannot execute."""
    from warpwise import machine

    total = grid[0] * grid[1] * grid[2]

    def run(blocks: int | None) -> Counts:
        return machine.run(
            program, grid, block, shared, arguments, constants=constants, blocks=blocks, timeout=options.timeout
        )

    try:
        if options.blocks is not None:
            wanted = None if options.blocks == "all" or options.blocks >= total else int(options.blocks)
            return Run(run(wanted))
        if checked_seconds is not None and _SLOWER * checked_seconds <= options.budget:
            return Run(run(None))
        first = run(min(total, _PILOT))
        if first.blocks_run >= total:
            return Run(first)
        fit = int(options.budget / max(first.seconds / first.blocks_run, 1e-9))
        if fit >= total:
            return Run(run(None))
        return Run(run(fit) if fit >= 2 * first.blocks_run else first)
    except machine.MachineFault as error:
        return Run(unsupported=str(error), agrees=Agreement("not compared", "the machine code was not executed"))


_PILOT = 8  # blocks that tell how long one takes


def assembled(
    kernel: str, profile: Profile, grid: Any, block: Any, resources: Resources, program: Program, run: Run, file: str, text: str,
    options: Options, seconds: Mapping[str, float],
) -> Explanation:  # fmt: skip
    """The explanation of a run: metrics, lines, occupancy, prediction, hints and what they cannot know."""
    from warpwise.lab.explain.hardware import hardware
    from warpwise.lab.explain.hints import hints
    from warpwise.lab.explain.metrics import line_metrics, metrics
    from warpwise.lab.explain.occupancy import occupancy
    from warpwise.lab.explain.time_model import predict

    threads = block[0] * block[1] * block[2]
    needs = (threads, resources.registers, resources.static_shared, resources.dynamic_shared)
    fits = occupancy(profile.name, *needs)
    everywhere = {
        other.name: occupancy(other.name, *needs) for other in Profile.known() if other.compute_capability >= (7, 5)
    }
    counts = run.counts
    by_line = line_metrics(counts) if counts is not None else {}
    sources, names = source_view.texts(program, file, text)
    lines = source_view.lines(program, counts, by_line, sources, names)
    known: dict[str, float] = {}
    expected: Prediction | None = None
    found: tuple[Hint, ...] = ()
    if counts is not None:
        model = hardware(profile.name)
        known = metrics(counts, fits, model)
        expected = predict(counts, fits, model)
        named = {theirs: sources[ours] for theirs, ours in names.items()}
        advice = hints(counts, by_line, fits, expected, model, named)
        found = tuple(replace(hint, file=names.get(hint.file, hint.file)) for hint in advice)
    return Explanation(
        kernel, profile.name, grid, block, resources, known, lines, fits, everywhere, expected, found, run.agrees,
        caveats(lines, names.get(file, file), run, options), counts, (), run.unsupported, sources, dict(seconds),
        names.get(file, file),
    )  # fmt: skip


def caveats(lines: Sequence[Any], own: str, run: Run, options: Options) -> tuple[str, ...]:
    """What the counters of this run cannot see."""
    found = []
    if run.unsupported:
        found.append(
            f"Not executed: {run.unsupported}. Resources and occupancy are those of the compiled kernel all the same."
        )
    if options.checks == "none":
        found.append("The kernel was not checked first: counters of a wrong kernel explain nothing.")
    if run.agrees.status == "no":
        found.append(
            f"The executed machine code and the checked run disagree, so doubt these counters: {run.agrees.text}."
        )
    counts = run.counts
    if counts is None:
        return tuple(found)
    if idle := source_view.unreached(counts, lines, own):
        found.append(f"Not reached with these arguments, so that it costs nothing here: {idle}.")
    if counts.sampled:
        found.append(
            f"{counts.blocks_run:,} of {counts.blocks:,} blocks were executed and the counters scaled up; blocks that do "
            "other work than those count wrongly."
        )
    found.append("Blocks ran one after another: contention, and who finds what in L2, may differ on a GPU.")
    found.append(
        "L1 and L2 hits come from models of the caches, waits from nominal latencies of a warp alone on its SM."
    )
    return tuple(found)
