"""The short way of a call: what was checked, chosen and recorded for arguments of one description is not done again.

An operation looks at shapes, strides, dtypes, devices and alignment alone before its kernels start, so that arguments
which agree in these run the same plan: PyTorch, a recorded launch, or a rung that must be launched anew each time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from warpwise import ranges, tuned
from warpwise.cuda.gpu.recording import Recording, allocator, record
from warpwise.cuda.launch import intercept
from warpwise.ops._shortcuts import ALIGNMENT, MOST
from warpwise.registry import Op, Outputs, Rung

Plan = Callable[..., Outputs]


def description(args: Sequence[Any]) -> list[Any]:
    """What a launcher may look at. Raises ``RuntimeError`` or ``TypeError`` for a tensor without strides or memory."""
    described: list[Any] = []
    for value in args:
        if isinstance(value, torch.Tensor):
            described += (
                value.shape, value.stride(), value.dtype, value.device, value.data_ptr() & ALIGNMENT, value.is_neg(),
            )  # fmt: skip
        else:
            described += (type(value), value)
    return described


class Plans:
    """``op`` by plans: ``plans(args, rung)`` gives what ``op(*args, rung=rung)`` gives.

    ``eager`` is PyTorch's way if it is not the specification's.
    """

    def __init__(self, op: Op, eager: Callable[..., Outputs] | None = None) -> None:
        self.op = op
        self.eager: Plan = eager or op.spec.eager
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._generation = tuned.generation()

    def __call__(self, args: tuple[Any, ...], rung: str | None) -> Outputs:
        return self.plan(args, rung)(*args)

    def fill(self, made: Outputs, *args: Any) -> bool:
        """``made`` filled by the rung that is chosen for ``args``; False, and nothing done, where that is PyTorch."""
        plan = self.plan(args, None)
        if not isinstance(plan, _Launch):
            return False
        self.op.launch(plan.rung, made, *args)
        return True

    def plan(self, args: tuple[Any, ...], rung: str | None) -> Plan:
        """What is to be called with ``args``, or with others like them. Raises what ``op`` raises for these."""
        try:
            key = (rung, *description(args))
            plan = self._plans.get(key)
        except (RuntimeError, TypeError):  # a tensor without strides or memory, an argument without a hash
            return functools.partial(self.op, rung=rung)
        if plan is None or self._generation != tuned.generation():
            plan = self._made(key, args, rung)
        return plan

    def _made(self, key: tuple[Any, ...], args: tuple[Any, ...], rung: str | None) -> Plan:
        op = self.op
        op.spec.check(*args)
        chosen = op.chosen(*args, rung=rung)
        if self._generation != tuned.generation() or len(self._plans) >= MOST:
            self._plans.clear()
            self._generation = tuned.generation()
        plan = self.eager if chosen is None else _Launch(op, chosen, args)
        self._plans[key] = plan
        return plan


class _Launch:
    """A rung for arguments of one description: recorded at its first launch on a GPU, repeated from then on if that can be."""

    __slots__ = ("_op", "_recorded", "_repeated", "_tensors", "rung")

    def __init__(self, op: Op, rung: Rung, args: tuple[Any, ...]) -> None:
        self._op, self.rung = op, rung
        self._tensors = [at for at, value in enumerate(args) if isinstance(value, torch.Tensor)]
        self._repeated: Callable[[tuple[Any, ...]], Outputs | None] | None = None
        self._recorded = False

    def __call__(self, *args: Any) -> Outputs:
        if self._repeated is not None and not (intercept.INTERCEPTORS or ranges.profiling_active()):
            made = self._repeated(args)
            if made is not None:
                return made
        made = self._op.spec.outputs(*args)
        results = (made,) if isinstance(made, torch.Tensor) else made
        inputs = [args[at] for at in self._tensors]
        if (
            self._recorded
            or intercept.INTERCEPTORS
            or ranges.profiling_active()
            or not self._recordable(results, inputs)
        ):
            self._op.launch(self.rung, made, *args)
            return made
        self._recorded = True
        filled = [result for result in results if result.numel()]
        recording = record(lambda: self._op.launch(self.rung, made, *args), [*filled, *inputs])
        if recording is not None:
            self._repeated = _repetition(recording, made, self._tensors)
        return made

    def _recordable(self, results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> bool:
        """Whether the rung is handed these very tensors, each in memory of its own, on a GPU; a result may have no elements."""
        tensors = [*(result for result in results if result.numel()), *inputs]
        return (
            self.rung.language in ("cuda", "triton")
            and len(tensors) > len(inputs)
            and all(tensor.is_cuda and tensor.numel() and not tensor.is_neg() for tensor in tensors)
            and (self.rung.strided or all(tensor.is_contiguous() for tensor in tensors))
            and len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)
        )


def _repetition(
    recording: Recording, made: Outputs, tensors: Sequence[int]
) -> Callable[[tuple[Any, ...]], Outputs | None]:
    """What allocates outputs like ``made`` and fills them; it gives None where they lie otherwise than at 256 bytes."""
    if isinstance(made, torch.Tensor):
        allocated = allocator(made)

        def repeated(args: tuple[Any, ...]) -> Outputs | None:
            result = allocated()
            address = result.data_ptr()
            if address & ALIGNMENT:
                return None
            recording([address, *[args[at].data_ptr() for at in tensors]])
            return result

        return repeated

    allocators = [allocator(result) for result in made]
    filled = [at for at, result in enumerate(made) if result.numel()]

    def all_repeated(args: tuple[Any, ...]) -> Outputs | None:
        results = tuple([allocated() for allocated in allocators])
        addresses = [results[at].data_ptr() for at in filled]
        if any(address & ALIGNMENT for address in addresses):
            return None
        recording([*addresses, *[args[at].data_ptr() for at in tensors]])
        return results

    return all_repeated
