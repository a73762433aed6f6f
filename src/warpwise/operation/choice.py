"""The choice of the rung, or PyTorch, that computes a call.

For an operation with tables of measurements, the choice is the fastest candidate at a point of these sizes, else the
prediction of a model, else PyTorch. If there is no model, the choice is the fastest candidate at a near point, else the
rung that ``default`` returns. For an operation without tables, ``default`` always decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from warpwise.arguments.values import first_tensor, tensors
from warpwise.device.target import Device, assume_device, device_of
from warpwise.tuned import Choice

if TYPE_CHECKING:
    from warpwise.operation.op import Op


TABLE_DEVICES = {"cuda"}  # elsewhere PyTorch computes
GPU_TIME = "by GPU time"  # replaces a rung's name in the key of a call whose choice ignores host times
wanted: list[str | None] = [None]  # for calls that name no rung
online: Callable[[Op, Sequence[Any], Choice, bool], Choice] | None = None
"""``online(op, args, choice, runs)`` replaces the choice of the tables; ``lab.tune_online`` sets it."""


@contextmanager
def by_gpu_time() -> Iterator[None]:
    """Within the context only the time on the GPU decides, because a graph launches its kernels without the host.

    For calls that a CUDA graph captures, and for the calls before that build their plans and compile their kernels. At
    sizes without a measured point PyTorch computes, unless a rung is predicted to be a tenth faster. The context
    applies to all threads, because autograd calls a backward in a thread of its own.
    """
    before, wanted[0] = wanted[0], GPU_TIME
    try:
        yield
    finally:
        wanted[0] = before


def choose(op: Op, args: Sequence[Any], runs: bool = False) -> Choice:
    """The choice for a call of ``op`` with ``args`` that names no rung. ``runs``: the caller executes the call next."""
    kinds = {tensor.device.type for tensor in tensors(args)}
    if not kinds & TABLE_DEVICES:
        kind = "meta" if "meta" in kinds else next(iter(kinds), "cpu")
        reason = f"on {'a CPU' if kind == 'cpu' else kind} PyTorch computes unless a rung is named"
        hint = "a meta tensor has no values; give device= for the choice on a GPU"
        return Choice(None, reason=hint if kind == "meta" else reason, source="device")
    if op.tables is not None:
        found = op.tables.choice(op, *args) or _between_points(op, args)
        return found if online is None else online(op, args, found, runs)
    return _by_rule(op, args)


def _between_points(op: Op, args: Sequence[Any], device: Device | None = None) -> Choice:
    """The choice if no point is near: PyTorch, or that of the ladder's rule if the tables have no model.

    ``device`` replaces the arguments' own.
    """
    dtype = op.spec.dtype(args)
    if all(rung.dtypes is not None and dtype not in rung.dtypes for rung in op.rungs):
        return Choice(None, reason=f"no rung takes {dtype}", source="tables")
    if op.tables is not None and op.tables.model is None:
        return _by_rule(op, args)
    if not all(tensor.numel() for tensor in tensors(args)):
        return Choice(None, reason="a size is 0", source="tables")
    where, reason = device or device_of(first_tensor(args).device), "no measured point is near"
    if op.tables is not None and not op.tables.tables(where):
        reason = f"there is no table for {where.name}"
    return Choice(None, reason=f"{reason}; `warpwise tune {op.name}` adds points", source="tables")


def _by_rule(op: Op, args: Sequence[Any]) -> Choice:
    name = op.default(*args)
    if name is None:
        return Choice(None, reason="the ladder leaves these arguments to PyTorch")
    rung, _, config = name.partition("@")
    return Choice(rung, config, "the ladder's rule for these shapes")


def _chosen_on(op: Op, args: Sequence[Any], device: Device | str) -> Choice:
    if not isinstance(device, (Device, str)):
        wanted = "a GPU's name, such as 'NVIDIA H200', or a warpwise.operation.Device"
        raise TypeError(f"{op.name}: expected device to be {wanted}, got {device!r}")
    where, tables = Device(device) if isinstance(device, str) else device, op.tables
    if tables is None:
        if not where.multiprocessors:
            wanted = f"warpwise.operation.Device({where.name!r}, target, multiprocessors)"
            raise LookupError(f"{op.name}: has no tables but a rule that needs the number of SMs: give device={wanted}")
        with assume_device(where):
            return _by_rule(op, args)
    table = next(iter(tables.tables(where)), None)
    if table is None and not (where.target and where.multiprocessors):
        others = ", ".join(tables.devices())
        found = f"; there is one for {others}, which GPUs of the same target and number of SMs use" if others else ""
        target = "" if where.target else f" (give Device({where.name!r}, target, multiprocessors) for a similar GPU)"
        raise LookupError(
            f"{op.name}: no table for {where.name}; `warpwise tune {op.name}` makes one on that GPU{found}{target}"
        )
    with assume_device(where if table is None or where.multiprocessors else table.device):
        return tables.choice(op, *args, device=where) or _between_points(op, args, where)


def chosen(op: Op, *args: Any, device: Device | str | None = None, **named: Any) -> Choice:
    """Return the choice for a call of ``op`` with these arguments, here or by the tables of ``device``.

    Nothing is computed. Raises the errors of the call, and ``LookupError`` if ``device`` is a name without a table. A
    ``Device`` without one needs its target and number of SMs; PyTorch or the ladder's rule then computes, as there.
    """
    if not hasattr(op, "spec"):
        raise TypeError(f"chosen: expected an Op, such as warpwise.operation.get('matmul'), got {op!r}")
    args = op.spec.parsed.bind(args, named)
    op.spec.check(*args)
    first_tensor(args)
    return choose(op, args) if device is None else _chosen_on(op, args, device)
