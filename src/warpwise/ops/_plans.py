"""The short way of a call: what was checked, chosen and recorded for arguments of one description is not done again.

An operation looks at shapes, strides, dtypes, devices and alignment alone before its kernels start, so that arguments
which agree in these run the same plan: PyTorch, a recorded launch, or a rung that must be launched anew each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from warpwise import ranges, tuned
from warpwise.cuda import observe
from warpwise.cuda.recording import Recording, record
from warpwise.registry import Op, Outputs, Rung

MOST = 1024  # plans of one operation; past that all are made anew
ALIGNMENT = 255  # no kernel looks at more of an address than its place among 256 bytes, on which allocations begin

Plan = Callable[[tuple[Any, ...]], Outputs]


class Plans:
    """``op`` by plans: ``plans(args, rung)`` gives what ``op(*args, rung=rung)`` gives."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._generation = tuned.generation()

    def __call__(self, args: tuple[Any, ...], rung: str | None) -> Outputs:
        key: list[Any] = [rung]
        try:
            for value in args:
                if isinstance(value, torch.Tensor):
                    key += (
                        value.shape, value.stride(), value.dtype, value.device, value.data_ptr() & ALIGNMENT, value.is_neg(),
                    )  # fmt: skip
                else:
                    key += (type(value), value)
            plan = self._plans.get(tuple(key))
        except (RuntimeError, TypeError):  # a tensor without strides or memory, an argument without a hash
            return self.op(*args, rung=rung)
        if plan is None or self._generation != tuned.generation():
            plan = self._made(tuple(key), args, rung)
        return plan(args)

    def _made(self, key: tuple[Any, ...], args: tuple[Any, ...], rung: str | None) -> Plan:
        """A new plan. Raises what ``op`` raises for these arguments."""
        op = self.op
        op.spec.check(*args)
        chosen = op.chosen(*args, rung=rung)
        if self._generation != tuned.generation() or len(self._plans) >= MOST:
            self._plans.clear()
            self._generation = tuned.generation()
        plan = _eager(op) if chosen is None else _Launch(op, chosen, args)
        self._plans[key] = plan
        return plan


def _eager(op: Op) -> Plan:
    eager = op.spec.eager
    return lambda args: eager(*args)


class _Launch:
    """A rung for arguments of one description: recorded at its first launch on a GPU, repeated from then on if that can be."""

    __slots__ = ("_op", "_recorded", "_recording", "_rung", "_tensors")

    def __init__(self, op: Op, rung: Rung, args: tuple[Any, ...]) -> None:
        self._op, self._rung = op, rung
        self._tensors = [at for at, value in enumerate(args) if isinstance(value, torch.Tensor)]
        self._recording: Recording | None = None
        self._recorded = False

    def __call__(self, args: tuple[Any, ...]) -> Outputs:
        made = self._op.spec.outputs(*args)
        watched = observe.OBSERVERS or ranges.watched()
        if self._recording is not None and not watched:
            addresses = [made.data_ptr()] if isinstance(made, torch.Tensor) else [each.data_ptr() for each in made]
            offsets = 0
            for address in addresses:
                offsets |= address
            if not offsets & ALIGNMENT:
                self._recording(addresses + [args[at].data_ptr() for at in self._tensors])
                return made
        tensors = [*((made,) if isinstance(made, torch.Tensor) else made), *(args[at] for at in self._tensors)]
        if self._recorded or watched or not self._recordable(tensors):
            self._op.launch(self._rung, made, *args)
            return made
        self._recorded = True
        self._recording = record(lambda: self._op.launch(self._rung, made, *args), tensors)
        return made

    def _recordable(self, tensors: list[torch.Tensor]) -> bool:
        """Whether the rung is handed these very tensors, each in memory of its own, on a GPU."""
        return (
            self._rung.language in ("cuda", "triton")
            and all(tensor.is_cuda and tensor.numel() for tensor in tensors)
            and (self._rung.strided or all(tensor.is_contiguous() for tensor in tensors))
            and len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)
        )
