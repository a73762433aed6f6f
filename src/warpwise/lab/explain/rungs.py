"""``explain_rung``: explain every kernel that a rung launches at one of the operation's sizes."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from warpwise import operation
from warpwise.cuda.launch.intercept import intercepting
from warpwise.cuda.launch.limits import target_profile
from warpwise.device.target import assume_sm_count, assumed_sm_count
from warpwise.lab.explain.launch import explain_launch
from warpwise.lab.explain.memory import LargeTensorsUntouched, require_memory, without_memory
from warpwise.lab.explain.model.explanation import Explanation, Explanations
from warpwise.lab.explain.model.hardware import hardware
from warpwise.lab.explain.options import BUDGET, Blocks, Options
from warpwise.operation import Case, Op, Rung
from warpwise.operation.registry import op_of

# Limits for a checked run of about a second: the product of the sizes, bytes and floating-point operations.
CHECKED_SIZES, CHECKED_BYTES, CHECKED_FLOPS = 2**24, 2**24, 2**25


def named(text: str) -> tuple[Op, Rung]:
    """The operation and rung of ``"softmax:k03"``. Raises ``ValueError``, ``LookupError`` or ``UnknownRung``."""
    name, colon, rung = text.partition(":")
    if not colon or not name or not rung:
        raise ValueError(f"explain: {text!r}: expected an operation and a rung, such as 'softmax:k03'")
    try:
        op = operation.get(name)
    except LookupError:
        operation.load_entry_points()
        op = operation.get(name)
    return op, op.rung(rung)


def explain_rung(
    op: Op | str,
    rung: Rung | str,
    case: Case | str | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    *,
    target: str | None = None,
    blocks: Blocks = None,
    budget: float = BUDGET,
    checks: str = "all",
    timeout: float = 60.0,
    arguments: Callable[[Case], tuple[Any, ...]] | None = None,
) -> Explanations:
    """Explain each launch that ``rung`` of ``op`` makes, in order, for ``case`` (or the size of that name) and
    ``dtype``.

    By default, ``case`` is the first size of the operation that the rung takes, halved until a checked run takes about
    a second. If ``case`` is larger, the rung is checked at the first size, or at ``case``, halved in this way; then
    ``case`` is counted without a check, and a caveat notes this. Arguments that do not fit into memory are zeros that
    occupy none, which finds indices that wrap around at 32 bits. Inputs are made on ``device`` from ``seed``. For a
    case that is counted without a check, ``arguments(case)`` may return them instead: only the arguments that the
    operation mutates are changed. The other options are those of ``explain``.

    Raises ``ValueError`` if the rung does not support the case or launches no kernel, or if the arguments exceed the
    available memory and their shapes depend on values or PyTorch reads them, and what ``explain`` raises.
    """
    op = op_of("explain_rung", op)
    rung = op.rung(rung) if isinstance(rung, str) else rung
    dtype = dtype or next(known for known in op.spec.dtypes if rung.dtypes is None or known in rung.dtypes)
    where = torch.device(device)
    chosen = checkable(op, dtype, rung) if case is None else _case(op, case)
    options = Options(target, blocks, budget, checks, timeout, keep=True)
    sparse = None
    if where.type == "cpu" and case is not None and arguments is None:
        sparse = without_memory(op, chosen, dtype)
    else:
        require_memory(op, chosen, dtype)
    large = case is not None and checks != "none" and (sparse is not None or too_large(op, chosen, dtype))
    if large:
        small = checkable(op, dtype, rung, chosen)
        _collect(op, rung, small, dtype, where, seed, dataclasses.replace(options, blocks=1))
        options = dataclasses.replace(options, checks="none", keep=False)
    if sparse is not None:
        found = _collect(op, rung, chosen, dtype, where, seed, dataclasses.replace(options, checks="none"), *sparse)
    else:
        made = arguments(chosen) if arguments is not None and options.checks == "none" else None
        found = _collect(op, rung, chosen, dtype, where, seed, options, made)
    if large:
        note = (
            f"{_described(chosen.sizes)} is too large to be checked on a CPU: the rung was checked at "
            f"{_described(small.sizes)}, and counted here unchecked."
        )
        found = [_noted(one, note, len(found)) for one in found]
    if sparse is not None:
        found = [dataclasses.replace(one, caveats=(*one.caveats, _ZEROS)) for one in found]
    return Explanations(found)


def _noted(one: Explanation, note: str, launches: int) -> Explanation:
    """``one`` with ``note`` in place of the caveat that the kernel was not checked."""
    rest = [text for text in one.caveats if not text.startswith("The kernel was not checked")]
    if launches > 1:
        note += " Each launch was counted on buffers that the launches before it did not fill."
    return dataclasses.replace(one, caveats=(note, *rest))


def _collect(
    op: Op,
    rung: Rung,
    case: Case,
    dtype: torch.dtype,
    device: torch.device,
    seed: int,
    options: Options,
    made: tuple[Any, ...] | None = None,
    outputs: tuple[Any, ...] | None = None,
) -> list[Explanation]:
    """Call the rung's launcher, and explain each launch in place of its execution.

    An unchecked launch has the grid for the target's number of SMs, a checked one the grid for one SM. ``made`` are the
    arguments, if the caller has them, and ``outputs`` those of arguments that do not fit into memory.
    """
    args = op.spec.arguments(case, dtype, device, seed) if made is None else made
    if outputs is None:
        op.spec.check(*args)
    # Machine code may execute although the emulator does not support the kernel.
    unchecked = options.checks == "none" and device.type not in rung.devices
    if reason := rung.limits(*args) if unchecked else op.refusal(rung, *args):
        advice = (
            "; checks='none' (--trusted) executes its machine code unchecked"
            if device.type not in rung.devices
            else f"; it is written in {'C' if rung.language == 'c' else 'Python'}: choose a rung with a GPU kernel"
            if rung.language in ("c", "python")
            else ""
        )
        raise ValueError(f"{op.name}: {rung.name} {reason}{advice}")
    found: list[Explanation] = []

    def interceptor(launcher: Any, given: tuple[Any, ...], more: Mapping[str, Any]) -> None:
        own = {name: value for name, value in more.items() if name not in _LAUNCH_OPTIONS}
        found.append(explain_launch(launcher, given, own, options))

    sms = hardware(target_profile(options.target).name).sm_count if options.checks == "none" else assumed_sm_count()
    untouched = LargeTensorsUntouched() if outputs is not None else contextlib.nullcontext()
    with assume_sm_count(sms), intercepting(interceptor), untouched:
        op.launch(rung, op.allocate(*args) if outputs is None else outputs, *args)
    if not found:
        raise ValueError(
            f"{op.name}: {rung.name} ({rung.language}) launches no GPU kernel for {case}: nothing to explain"
        )
    return found


_ZEROS = "The arguments do not fit into memory: they are zeros, so branches on their values are not representative."
_LAUNCH_OPTIONS = ("timeout", "checks", "order", "seed")


def checkable(op: Op, dtype: torch.dtype, rung: Rung | None = None, *others: Case) -> Case:
    """The operation's first size with its largest sizes halved until a checked run takes about a second. If ``rung``
    does not take it, the first that it takes of ``others``, by default of the other sizes."""
    first = _halved(op, op.spec.sizes[0], dtype)
    if rung is None or _takes(op, rung, first, dtype):
        return first
    smaller = (_halved(op, case, dtype) for case in others or op.spec.sizes[1:])
    return next((case for case in smaller if _takes(op, rung, case, dtype)), first)


def _takes(op: Op, rung: Rung, case: Case, dtype: torch.dtype) -> bool:
    return rung.limits(*op.spec.arguments(case, dtype, torch.device("cpu"), 0)) is None


def _halved(op: Op, case: Case, dtype: torch.dtype) -> Case:
    """``case`` with its largest sizes halved until a checked run takes about a second."""
    key = op.name, str(case), dtype
    if key in _HALVED:
        return _HALVED[key]
    while too_large(op, case, dtype) and (largest := max(case.sizes.values())) > 1:
        # Every dimension of the largest size is halved, so square problems stay square.
        sizes = {name: size // 2 if size == largest else size for name, size in case.sizes.items()}
        case = dataclasses.replace(case, name=_described(sizes), sizes=sizes)
    return _HALVED.setdefault(key, case)


_HALVED: dict[tuple[str, str, torch.dtype], Case] = {}


def _described(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def too_large(op: Op, case: Case, dtype: torch.dtype) -> bool:
    """True if checking this case takes much more than a second."""
    if math.prod(max(1, size) for size in case.sizes.values()) > CHECKED_SIZES:
        return True
    cost = op.spec.cost(*op.spec.arguments(case, dtype, torch.device("cpu"), 0))
    return cost.bytes > CHECKED_BYTES or cost.flops > CHECKED_FLOPS


def _case(op: Op, case: Case | str) -> Case:
    if isinstance(case, Case):
        return case
    known = {one.name: one for one in (*op.spec.sizes, *op.spec.cases)}
    if case not in known:
        raise ValueError(f"{op.name}: no size {case!r}; there are {', '.join(known)}")
    return known[case]
