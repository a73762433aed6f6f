"""``verify``: compare a rung with the float64 reference of its operation on every case, dtype and seed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from warpwise.cuda.errors import CompileError, Deadlock, KernelError, KernelTimeout
from warpwise.lab.timing.environment import current, place, resolve
from warpwise.lab.verify.attempt import Attempt, attempt
from warpwise.lab.verify.build import build_ahead
from warpwise.lab.verify.impostors import require_no_impostor
from warpwise.lab.verify.problem import Problem, require_kinds
from warpwise.lab.verify.shrink import shrink
from warpwise.lab.verify.verdict import CaseResult, Failure, Progress, Status, Step, Verdict, dtype_name, silent
from warpwise.operation import Case, Op, Rung
from warpwise.operation.registry import op_of

FINAL = (KernelTimeout, Deadlock)  # each further case would run until the timeout as well


def verify(
    op: Op | str,
    rung: Rung | str,
    *,
    device: torch.device | str | None = None,
    dtypes: Sequence[torch.dtype] | None = None,
    cases: Sequence[Case] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress | None = None,
    problem: Problem | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Verdict:
    """Run ``rung`` on every case, dtype and seed and compare it with the specification's float64 reference.

    ``op`` is an operation or the name of a registered one. ``cases`` and ``dtypes`` are by default all of the
    specification's. ``progress`` is called with each ``Step``.

    On a CPU a CUDA or Triton rung runs emulated; by default the GPU is used if there is one. Outputs and mutated
    arguments are poisoned or copied, and lie between guard bands. Other arguments must not change. Two runs must give
    the same bits unless the rung is not deterministic; on a CPU this is tested for the first seed only, and the second
    run emulates blocks and threads in reverse order. A finding of the emulator is a failure. The first failing case is
    shrunk while the rung still fails. ``problem`` shares references among calls for one operation and device.

    Raises ``IncompleteCases`` or ``VacuousProblem`` if the cases cannot reject wrong kernels, ``UnknownRung``, and
    ``ValueError`` if there is no seed.
    """
    op = op_of("verify", op)
    chosen = op.rung(rung) if isinstance(rung, str) else rung
    if not seeds:
        raise ValueError("verify: expected at least one seed in seeds, got none")
    problem = problem or Problem(op, resolve(device))
    report = progress or silent
    require_kinds(op.spec)
    run = _Run(op, chosen, problem, tuple(cases or op.spec.cases), tuple(seeds), report, clock)
    with current(problem.device), _threads(chosen, problem.device):
        return run.verdict(tuple(dtypes or op.spec.dtypes))


@contextlib.contextmanager
def _threads(rung: Rung, device: torch.device) -> Iterator[None]:
    """Use one PyTorch thread while a kernel is emulated: on small tensors several threads are slower.

    A C rung keeps all threads, since races between them are verified too.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if device.type == "cpu" and rung.language != "c" else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Run:
    """The state of one verification."""

    def __init__(
        self,
        op: Op,
        rung: Rung,
        problem: Problem,
        cases: tuple[Case, ...],
        seeds: tuple[int, ...],
        report: Progress,
        clock: Callable[[], float],
    ) -> None:
        self.op, self.rung, self.problem, self.cases, self.seeds = op, rung, problem, cases, seeds
        self.report, self.clock = report, clock
        self.failures: list[Failure] = []
        self.lost = self.stop = False
        self.uncompiled: set[torch.dtype] = set()

    def verdict(self, dtypes: tuple[torch.dtype, ...]) -> Verdict:
        started, results, done = self.clock(), [], 0
        total = len(dtypes) * len(self.cases)
        if self.problem.device.type == "cpu":
            build_ahead(self.op, self.rung, self.cases, dtypes, self.seeds[0])
        for dtype in dtypes:
            if self.rung.dtypes is None or dtype in self.rung.dtypes:
                self._report("impostors", dtype_name(dtype), done, total)
                require_no_impostor(self.problem, dtype, self.cases, self.seeds)
            for case in self.cases:
                if self.stop or dtype in self.uncompiled:
                    break
                self._report("verify", f"{case}, {dtype_name(dtype)}", done, total)
                results.append(self._case(case, dtype))
                done += 1
        tested = any(result.status == "right" and result.reason != EMPTY for result in results)
        status: Status = "wrong" if self.failures else "right" if tested else "untested"
        spent = self.clock() - started
        where = place(self.problem.device)
        verdict = Verdict(
            self.op.name,
            self.rung.name,
            where,
            status,
            tuple(results),
            tuple(self.failures),
            spent,
            self.lost,
            self._notes(),
        )
        self.report(Step("verify", self.rung.name, "", done, total, verdict))
        return verdict

    def _notes(self) -> tuple[str, ...]:
        if self.lost:
            return ("the CUDA context is lost: nothing else can run on the GPU in this process",)
        if self.stop:
            return ("stopped there: the remaining cases would take as long",)
        return tuple(
            f"does not compile for {dtype_name(dtype)}: its other cases were left out" for dtype in self.uncompiled
        )

    def _report(self, stage: str, detail: str, done: int, total: int) -> None:
        self.report(Step(stage, self.rung.name, detail, done, total))  # type: ignore[arg-type]

    def _case(self, case: Case, dtype: torch.dtype) -> CaseResult:
        """Run the seeds of one case up to the first that fails."""
        started, worst, empty = self.clock(), 0.0, False
        for seed in self.seeds:
            if self.rung.dtypes is not None and dtype not in self.rung.dtypes:
                taken = ", ".join(dtype_name(taken) for taken in self.rung.dtypes)
                return CaseResult(case, dtype, "untested", f"takes {taken}, not {dtype_name(dtype)}")
            instance = self.problem.instance(case, dtype, seed)
            outcome = self._attempt(instance, seed)
            if outcome.skipped:
                return CaseResult(case, dtype, "untested", outcome.skipped, worst, self.clock() - started)
            worst, empty = max(worst, outcome.worst), instance.empty
            if outcome.failure is not None:
                self._record(outcome)
                return CaseResult(case, dtype, "wrong", outcome.failure.message, worst, self.clock() - started)
        return CaseResult(case, dtype, "right", EMPTY if empty else "", worst, self.clock() - started)

    def _attempt(self, instance: object, seed: int) -> Attempt:
        twice = self.problem.device.type == "cuda" or seed == self.seeds[0]
        return attempt(self.op, self.rung, instance, runs=2 if twice else 1)  # type: ignore[arg-type]

    def _record(self, outcome: Attempt) -> None:
        """Keep the failure. The first is shrunk, unless the CUDA context is lost or each attempt would take minutes."""
        failure = outcome.failure
        if failure is None:
            return
        self.lost = outcome.lost
        if outcome.error is CompileError:
            self.uncompiled.add(failure.dtype)
        self.stop = self.lost or outcome.error in FINAL
        if not self.failures and not self.stop and outcome.error is not CompileError:
            failure = replace(failure, smaller=self._smaller(failure, outcome.error))
            self.stop = self.lost
        self.failures.append(failure)

    def _smaller(self, failure: Failure, error: type[KernelError] | None) -> Failure | None:
        """The failure of the smallest case that fails in the same way: with the same kind and the same finding."""

        def fails(case: Case) -> Failure | None:
            self._report("shrink", str(case), 0, 0)
            try:
                instance = self.problem.make(case, failure.dtype, failure.seed)
            except (ValueError, TypeError, RuntimeError):  # the operation does not take these sizes
                return None
            outcome = attempt(self.op, self.rung, instance)
            self.lost |= outcome.lost
            same = outcome.failure is not None and (outcome.failure.kind, outcome.error) == (failure.kind, error)
            return outcome.failure if same else None

        found = shrink(failure.case, fails, self.clock)
        return found[1] if found else None


EMPTY = "empty: no kernel runs"
