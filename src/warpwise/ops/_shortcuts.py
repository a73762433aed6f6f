"""The shortest way of a call: what an earlier call of like arguments did is done again after one look at them.

That look must see whatever decides what a call does: kinds and values of arguments, whether a gradient is recorded, and
what traces or transforms operators in this thread. TorchDynamo's tensor guards see nearly all of it in one call of C++: a
tensor's class, dtype, device, sizes, strides and requires_grad, and the dispatch keys that it and the thread have, which
tell autocast, dispatch modes, function transforms, conjugated and negated views.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, is_grad_enabled
from torch.nn import Parameter

from warpwise import tuned

ALIGNMENT = 255  # no kernel looks at more of an address than its place among 256 bytes, on which allocations begin
MOST = 1024  # ways of one operation; past that all are found anew
ALIKE = 8  # of them for tensors of the same numbers of elements, which are asked one after the other

Way = Callable[..., Any]
"""``way(*args)`` gives what the operation gives for ``args``."""
Pick = Callable[[tuple[Any, ...]], tuple[Tensor, ...]] | None


def _guards() -> Callable[[Sequence[Tensor]], Callable[..., bool]] | None:
    """``guards(tensors)(*others)`` says whether tensors are alike; None where PyTorch has nothing that does."""
    kind: Any = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "TensorGuards", None)

    def guards(tensors: Sequence[Tensor]) -> Callable[..., bool]:
        check: Callable[..., bool] = kind(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        return check

    try:
        alike = guards([torch.empty(2, 1)])
        seen = alike(torch.empty(2, 1)) and not any(alike(other) for other in (torch.empty(1, 2), None))
    except Exception:  # noqa: BLE001 - another PyTorch's guards; every call goes the longer way then
        return None
    return guards if seen else None


class Shortcuts:
    """The ways of one operation, by the arguments that went them."""

    def __init__(self) -> None:
        self._guards = _guards()
        self._ways: dict[tuple[Any, ...], list[tuple[Callable[..., bool], Pick, Way]]] = {}
        self._kept = 0
        self._generation = tuned.generation()

    def find(self, args: tuple[Any, ...], rung: str | None) -> Way | None:
        """The way that a call like this one went, if there was one."""
        try:
            ways = self._ways.get(_key(args, rung))
            if ways is not None and self._generation == tuned.generation():
                for alike, tensors, way in ways:
                    if alike(*(args if tensors is None else tensors(args))):
                        return way
        except (RuntimeError, TypeError):  # a tensor without memory or strides, an argument without a hash
            pass
        return None

    def keep(self, args: tuple[Any, ...], rung: str | None, way: Way) -> None:
        """Let calls like this one go ``way``."""
        if self._guards is None:
            return
        if self._generation != tuned.generation() or self._kept >= MOST:
            self._ways, self._kept, self._generation = {}, 0, tuned.generation()
        tensors = _tensors(args)
        given = args if tensors is None else tensors(args)
        try:
            key = _key(args, rung)
            before = self._ways.get(key, [])
            alike = self._guards(given)
            kept = alike(*given)
        except (RuntimeError, TypeError):
            return
        if kept:  # as it is not where one tensor is given twice
            self._ways[key] = [(alike, tensors, way), *before][:ALIKE]
            self._kept += 1


def _tensors(args: tuple[Any, ...]) -> Pick:
    """What gives the tensors among arguments like these, as a tuple; None where all are tensors."""
    places = [at for at, value in enumerate(args) if isinstance(value, Tensor)]
    if len(places) == len(args):
        return None
    return (
        itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1) if places else slice(0))
    )


def _key(args: tuple[Any, ...], rung: str | None) -> tuple[Any, ...]:
    """What the guards do not see, and numbers of elements, so that few guards are asked. Raises for what has no key."""
    key: list[Any] = [rung, is_grad_enabled()]
    for value in args:
        kind = type(value)
        if kind is Tensor or kind is Parameter:
            key.append(value.data_ptr() & ALIGNMENT | value.numel() << 8)
        else:
            key.append(value if value is None else (kind, value))
    return tuple(key)
