"""One attempt of a rung at one instance: poisoned outputs, guarded memory, inputs watched, run once or twice."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace

import torch

from warpwise.cuda.errors import KernelError, UnsupportedFeature
from warpwise.lab.guard import Guarded, guarded
from warpwise.lab.problem import Instance, parts
from warpwise.lab.verdict import Failure, number
from warpwise.registry import Op, Rung


@dataclass(frozen=True)
class Attempt:
    """What one attempt gave: a failure or none, or why it could not be made; ``worst`` is the largest error over its tolerance.

    ``error`` is the kind of ``KernelError`` that ended it; ``lost`` says that the CUDA context went with it.
    """

    failure: Failure | None = None
    skipped: str = ""
    worst: float = 0.0
    lost: bool = False
    error: type[KernelError] | None = None


def attempt(op: Op, rung: Rung, instance: Instance, runs: int = 2) -> Attempt:
    """Run ``rung`` on ``instance`` ``runs`` times, each into outputs poisoned anew, and check everything there is to check."""
    if reason := op.refusal(rung, *instance.args):
        return Attempt(skipped=reason)
    worst, earlier = 0.0, None
    for run in range(runs):
        outputs = tuple(guarded(template, run) for template in parts(op.spec.outputs(*instance.args)))
        stopped = _launch(op, rung, instance, outputs)
        if stopped is not None:
            instance.inputs.restore() if not stopped.lost else None
            return stopped
        results = tuple(made.view.clone() for made in outputs)
        failure, ratio = _judge(instance, outputs, results)
        worst = max(worst, ratio)
        failure = failure or _trespass(instance, outputs) or _mutation(instance)
        if failure is None and earlier is not None and rung.deterministic:
            failure = _difference(instance, earlier, results)
        if failure is not None:
            return Attempt(failure, worst=worst)
        earlier = results
    return Attempt(worst=worst)


def _failure(instance: Instance, kind: str, message: str) -> Failure:
    return Failure(kind, message, instance.case, instance.dtype, instance.seed)  # type: ignore[arg-type]


def _launch(op: Op, rung: Rung, instance: Instance, outputs: tuple[Guarded, ...]) -> Attempt | None:
    """Launch and wait; None if it went through."""
    views = tuple(made.view for made in outputs)
    on_gpu = any(view.is_cuda for view in views)
    try:
        op.launch(rung, views if len(views) > 1 else views[0], *instance.args)
        if on_gpu:
            torch.cuda.synchronize(views[0].device)
    except UnsupportedFeature as error:
        return Attempt(skipped=f"{type(error).__name__}: {_first_line(error)}")
    except KernelError as error:
        failure = _failure(instance, "finding", str(error.finding or error))
        lost = on_gpu and _context_lost()
        return Attempt(replace(failure, findings=error.findings), lost=lost, error=type(error))
    except Exception as error:  # noqa: BLE001 - whatever a rung raises is the rung's failure, and the verdict says it
        last = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {_first_line(error)} (at {last.filename.rpartition('/')[2]}:{last.lineno})"
        return Attempt(_failure(instance, "exception", message), lost=on_gpu and _context_lost())
    return None


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _context_lost() -> bool:
    """Whether the last error destroyed the CUDA context, as an illegal address does."""
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").add_(1).item()
    except RuntimeError:
        return True
    return False


def _judge(
    instance: Instance, outputs: tuple[Guarded, ...], results: tuple[torch.Tensor, ...]
) -> tuple[Failure | None, float]:
    """The first output with a wrong element, and the largest error over its tolerance in any output."""
    worst, failure = 0.0, None
    for position, result in enumerate(results):
        found = instance.compare(position, result)
        worst = max(worst, found.worst)
        if found.right or failure is not None or found.index is None:
            continue
        unwritten = outputs[position].unwritten(found.index)
        name = "output" if len(results) == 1 else f"output {position}"
        # Arithmetic on a NaN returns that NaN, so the poison also survives a sum into the output.
        added = ", or only added to" if result.dtype.is_floating_point else ""
        what = f"was never written{added}" if unwritten else f"is {number(found.actual)}"
        allowed = f" ± {found.tolerance:.3g}" if found.tolerance else ""
        message = (
            f"{name}{list(found.index)} {what}, expected {number(found.expected)}{allowed}; "
            f"{found.wrong:,} of {found.total:,} elements are wrong"
        )
        failure = replace(
            _failure(instance, "unwritten" if unwritten else "value", message), output=position, index=found.index,
            expected=found.expected, actual=found.actual, tolerance=found.tolerance, wrong=found.wrong, total=found.total,
        )  # fmt: skip
    return failure, worst


def _trespass(instance: Instance, outputs: tuple[Guarded, ...]) -> Failure | None:
    """A write outside an output, into its guard band."""
    for position, made in enumerate(outputs):
        offset = made.trespass()
        if offset is None:
            continue
        where = f"{-offset} bytes before its first byte" if offset < 0 else f"at byte {offset} of {made.view.nbytes}"
        message = f"wrote outside output {position}, {where} (shape {tuple(made.view.shape)})"
        return replace(_failure(instance, "guard", message), output=position)
    return None


def _mutation(instance: Instance) -> Failure | None:
    """A changed input, which is put back for whoever comes next."""
    changed = instance.inputs.changed()
    if changed is None:
        return None
    instance.inputs.restore()
    position, byte = changed
    return _failure(
        instance, "input", f"changed argument {position}, first at byte {byte} of its storage: inputs are read-only"
    )


def _difference(
    instance: Instance, first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]
) -> Failure | None:
    """Two runs on the same inputs that are not the same bit by bit."""
    for position, (before, after) in enumerate(zip(first, second, strict=True)):
        before, after = before.contiguous(), after.contiguous()
        if before.numel() == 0 or torch.equal(
            before.reshape(-1).view(torch.uint8), after.reshape(-1).view(torch.uint8)
        ):
            continue
        bytes_differ = before.reshape(-1).view(torch.uint8) != after.reshape(-1).view(torch.uint8)
        elements = bytes_differ.view(before.numel(), before.element_size()).any(1)
        at = int(elements.nonzero()[0])
        index = tuple(int(axis) for axis in torch.unravel_index(torch.tensor(at), before.shape))
        old, new = before.reshape(-1)[at].item(), after.reshape(-1)[at].item()
        message = (
            f"two runs on the same inputs differ: output {position}{list(index)} was {number(old)}, then {number(new)}; "
            f"{int(elements.sum()):,} of {before.numel():,} elements differ. If the order of atomics is meant to vary, "
            "say deterministic=False in the rung"
        )
        return replace(
            _failure(instance, "nondeterministic", message), output=position, index=index, expected=old, actual=new,
            wrong=int(elements.sum()), total=before.numel(),
        )  # fmt: skip
    return None
