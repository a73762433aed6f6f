"""``attempt``: run a rung on one instance and check results, guard bands, inputs and determinism."""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from warpwise.arguments.values import map_tensors
from warpwise.cuda.errors import KernelError, MissingTool, UnsupportedFeature
from warpwise.cuda.launch.order import launches_in
from warpwise.lab.verify.guard import Guarded, GuardedUnsized, PoisonedWorkspaces, guarded, guarded_copy
from warpwise.lab.verify.problem import Instance
from warpwise.lab.verify.verdict import Failure, number
from warpwise.native import NoCompiler
from warpwise.operation import Op, Rung, Unsized


@dataclass(frozen=True)
class Attempt:
    """The outcome of an attempt: ``failure``, or the reason why it was ``skipped``, or neither if the rung is right.

    ``worst`` is the largest ratio of an error to its tolerance. ``error`` is the type of the ``KernelError`` that ended
    the attempt. ``lost`` is true if the CUDA context was destroyed.
    """

    failure: Failure | None = None
    skipped: str = ""
    worst: float = 0.0
    lost: bool = False
    error: type[KernelError] | None = None


def attempt(op: Op, rung: Rung, instance: Instance, runs: int = 2) -> Attempt:
    """Run ``rung`` on ``instance`` ``runs`` times, each time with poisoned outputs and workspaces, and check each run.

    On a CPU, every second run emulates blocks and threads in reverse order, since one order gives the same bits twice.
    """
    try:
        reason = op.refusal(rung, *instance.args)
    except Exception as error:  # noqa: BLE001 - the limits of a rung may raise any exception
        return _raised(instance, error, on_gpu=False)
    if reason:
        return Attempt(skipped=reason)
    worst, earlier = 0.0, None
    for run in range(runs):
        trial = Trial(op, instance, run)
        with launches_in("reverse" if run % 2 else "forward"):
            stopped = _launch(op, rung, instance, trial)
        if stopped is not None:
            if not stopped.lost:
                instance.inputs.restore()
            return stopped
        results = tuple(result.clone() for result in trial.results())
        failure, ratio = _compare(instance, trial, results)
        worst = max(worst, ratio)
        failure = failure or _write_outside(instance, trial) or _changed_input(instance)
        if failure is None and earlier is not None and rung.deterministic:
            failure = _difference(
                instance, earlier, results, not _on_gpu(instance, trial) and rung.language in EMULATED, trial.workspaces
            )
        if failure is not None:
            return Attempt(failure, worst=worst)
        earlier = results
    return Attempt(worst=worst)


@dataclass
class Trial:
    """The memory of one run: poisoned outputs and copies of the mutated arguments, each between guard bands.

    ``workspaces`` poisons the memory that the launch allocates.
    """

    op: Op
    instance: Instance
    run: int
    outputs: list[Any] = field(default_factory=list)
    args: list[Any] = field(default_factory=list)
    guards: list[Guarded] = field(default_factory=list)
    workspaces: PoisonedWorkspaces = field(init=False)

    def __post_init__(self) -> None:
        spec = self.op.spec
        self.workspaces = PoisonedWorkspaces(self.run)
        for template in self.op.allocate(*self.instance.args):
            self.outputs.append(self._output(template))
        mutated = {spec.parsed.index(name) for name in spec.parsed.mutated}
        for place, value in enumerate(self.instance.args):
            self.args.append(map_tensors(self._copy, value) if place in mutated else value)

    def _output(self, template: torch.Tensor | Unsized | None) -> Any:
        if template is None:
            return None
        if isinstance(template, Unsized):
            return GuardedUnsized(template, self.run)
        self.guards.append(guarded(template, self.run))
        return self.guards[-1].view

    def _copy(self, values: torch.Tensor) -> torch.Tensor:
        self.guards.append(guarded_copy(values, self.run))
        return self.guards[-1].view

    def results(self) -> tuple[torch.Tensor, ...]:
        """The actual results, in the order of the instance's."""
        return self.instance.outputs(self.outputs, self.args)

    def all_guards(self) -> Sequence[Guarded]:
        """The guarded memory of each result, in order."""
        rest = iter(self.guards)
        outputs = [output.guard if isinstance(output, GuardedUnsized) else next(rest) for output in self._present()]
        return [*outputs, *rest]

    def _present(self) -> list[Any]:
        return [output for output in self.outputs if output is not None]


def _failure(instance: Instance, kind: str, message: str) -> Failure:
    return Failure(kind, message, instance.case, instance.dtype, instance.seed)  # type: ignore[arg-type]


def _launch(op: Op, rung: Rung, instance: Instance, trial: Trial) -> Attempt | None:
    """Launch and synchronise. Return None if it succeeded."""
    on_gpu = _on_gpu(instance, trial)
    try:
        with trial.workspaces:
            op.launch(rung, trial.outputs, *trial.args)
        if on_gpu:
            torch.cuda.synchronize(trial.guards[0].view.device if trial.guards else None)
        missing = [output.name for output in trial.outputs if isinstance(output, Unsized) and output.tensor is None]
        if missing:
            return Attempt(_failure(instance, "exception", f"{missing[0]}: the rung did not call allocate"))
    except UnsupportedFeature as error:
        return Attempt(skipped=f"{type(error).__name__}: {_first_line(error)}")
    except (MissingTool, NoCompiler) as error:
        return Attempt(skipped=_first_line(error))
    except KernelError as error:
        failure = _failure(instance, "finding", str(error.finding or error))
        lost = on_gpu and _context_lost()
        return Attempt(replace(failure, findings=error.findings), lost=lost, error=type(error))
    except ImportError as error:
        if (package := _missing_package(error)) is None:
            return _raised(instance, error, on_gpu)
        return Attempt(skipped=package)
    except Exception as error:  # noqa: BLE001 - any exception of a rung is a failure of the rung
        return _raised(instance, error, on_gpu)
    return None


def _on_gpu(instance: Instance, trial: Trial) -> bool:
    return any(result.reference.is_cuda for result in instance.results) or any(g.view.is_cuda for g in trial.guards)


def _raised(instance: Instance, error: Exception, on_gpu: bool) -> Attempt:
    """A failure with the message of ``error`` and the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = f"{type(error).__name__}: {_first_line(error)} (at {last.filename.rpartition('/')[2]}:{last.lineno})"
    return Attempt(_failure(instance, "exception", message), lost=on_gpu and _context_lost())


def _missing_package(error: ImportError) -> str | None:
    """The reason why a rung cannot run, if ``error`` is a missing optional dependency of Warpwise, else None."""
    cause: BaseException | None = error
    while cause is not None:
        package = (getattr(cause, "name", None) or "").partition(".")[0]
        if isinstance(cause, ModuleNotFoundError) and package in OPTIONAL:
            first = _first_line(error)
            return f"{first}: install {OPTIONAL[package]}" if cause is error else first
        cause = cause.__cause__
    return None


EMPTY_ADVICE = (
    "Does a kernel read memory of torch.empty that nothing has written? The lab fills it with NaN, or a pattern"
)
EMULATED = ("cuda", "triton")  # languages of kernels that an emulator runs on a CPU
OPTIONAL = {"triton": "triton", "cuda": "warpwise[cuda]"}  # modules, and the packages to install


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _context_lost() -> bool:
    """True if the last error destroyed the CUDA context, as an illegal memory access does."""
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").add_(1).item()
    except RuntimeError:
        return True
    return False


def _compare(instance: Instance, trial: Trial, results: tuple[torch.Tensor, ...]) -> tuple[Failure | None, float]:
    """Return the failure of the first wrong result, if any, and the largest ratio of an error to its tolerance."""
    worst, failure = 0.0, None
    for position, result in enumerate(results):
        found = instance.compare(position, result, results)
        worst = max(worst, found.worst)
        if found.right or failure is not None:
            continue
        name = instance.results[position].name
        if found.index is None:
            failure = replace(_failure(instance, "value", found.described(name)), output=position, total=found.total)
            continue
        guard = trial.all_guards()[position]
        unwritten = guard.unwritten(found.index)
        # NaN + x keeps the payload of the NaN, so the poison also survives an addition to the output.
        added = ", or only added to" if result.dtype.is_floating_point else ""
        message = f"{found.described(name, f'was never written{added}' if unwritten else '')}; {found.counted}"
        if trial.workspaces.used and not unwritten and _is_nan(found.actual) and not _is_nan(found.expected):
            message += f". {EMPTY_ADVICE}"
        failure = replace(
            _failure(instance, "unwritten" if unwritten else "value", message),
            output=position,
            index=found.index,
            expected=found.expected,
            actual=found.actual,
            tolerance=found.tolerance,
            wrong=found.wrong,
            total=found.total,
        )
    return failure, worst


def _is_nan(value: float | bool | None) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _write_outside(instance: Instance, trial: Trial) -> Failure | None:
    """Return the failure of a write to a guard band, or None."""
    for position, made in enumerate(trial.all_guards()):
        offset = made.write_outside()
        if offset is None:
            continue
        where = f"{-offset} bytes before its first byte" if offset < 0 else f"at byte {offset} of {made.view.nbytes}"
        name = instance.results[position].name
        message = f"wrote outside {name}, {where} (shape {tuple(made.view.shape)})"
        return replace(_failure(instance, "guard", message), output=position)
    return None


def _changed_input(instance: Instance) -> Failure | None:
    """Restore an input that changed and that the schema does not mark as mutated; return the failure, or None."""
    changed = instance.inputs.changed()
    if changed is None:
        return None
    instance.inputs.restore()
    position, byte = changed
    name = instance.spec.parsed.arguments[position].name
    message = (
        f"changed {name}, first at byte {byte} of its storage; the schema does not mark it as mutated, "
        f"as in 'Tensor(a!) {name}'"
    )
    return _failure(instance, "input", message)


def _difference(
    instance: Instance,
    first: tuple[torch.Tensor, ...],
    second: tuple[torch.Tensor, ...],
    emulated: bool,
    workspaces: PoisonedWorkspaces,
) -> Failure | None:
    """Return the failure if the results of two runs on the same inputs differ in a bit, or None."""
    how = "; in the second, emulated blocks and threads ran in reverse order" if emulated else ""
    for position, (before, after) in enumerate(zip(first, second, strict=True)):
        if before.shape != after.shape:
            shapes = f"{tuple(before.shape)}, then {tuple(after.shape)}"
            return _failure(instance, "nondeterministic", f"{instance.results[position].name} had shape {shapes}")
        differ = _bytes(before) != _bytes(after)
        if not bool(differ.any()):
            continue
        elements = differ.view(before.numel(), before.element_size()).any(1)
        at = int(elements.nonzero()[0])
        index = tuple(int(axis) for axis in torch.unravel_index(torch.tensor(at), before.shape))
        old, new = before.reshape(-1)[at].item(), after.reshape(-1)[at].item()
        message = (
            f"two runs on the same inputs differ: {instance.results[position].name}{list(index)} was {number(old)}, "
            f"then {number(new)}; "
            f"{int(elements.sum()):,} of {before.numel():,} elements differ{how}. If the order of atomics may vary, "
            f"set deterministic=False in the rung{'. ' + EMPTY_ADVICE if workspaces.used else ''}"
        )
        return replace(
            _failure(instance, "nondeterministic", message),
            output=position,
            index=index,
            expected=old,
            actual=new,
            wrong=int(elements.sum()),
            total=before.numel(),
        )
    return None


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the elements. A tensor of one element may have any stride; a view as bytes needs stride 1."""
    return tensor.reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8)
