"""The GPU for which a rung is chosen: its name, compute capability and SM count. It need not be in this machine."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import torch

from warpwise.device.profiles import parse_target

HOPPER_SMS = 132  # of an H100 SXM and an H200


@dataclass(frozen=True)
class Device:
    """A GPU in a tuned table: its name, its target (sm_90) and its number of SMs."""

    name: str
    target: str = ""
    multiprocessors: int = 0

    @property
    def file(self) -> str:
        """The name of its table: ``nvidia_h200.json``."""
        return re.sub(r"[^a-z0-9]+", "_", self.name.lower()).strip("_") + ".json"


_NONE = Device("")
_ASSUMED: ContextVar[Device] = ContextVar("the GPU to assume", default=_NONE)


@contextlib.contextmanager
def assume_device(device: Device) -> Iterator[None]:
    """Within the context, ``sm_count`` and ``capability`` of every tensor are those of ``device``, where it has any."""
    token = _ASSUMED.set(device)
    try:
        yield
    finally:
        _ASSUMED.reset(token)


def assume_sm_count(count: int) -> contextlib.AbstractContextManager[None]:
    """Within the context, ``sm_count`` returns ``count`` for every tensor, or if it is 0, that of the tensor's GPU."""
    return assume_device(replace(_ASSUMED.get(), multiprocessors=count))


def assumed_sm_count() -> int:
    """The count of the innermost ``assume_sm_count``, or 0."""
    return _ASSUMED.get().multiprocessors


def cdiv(count: int, size: int) -> int:
    """``count / size``, rounded up."""
    return -(-count // size)


def power_of_two(count: int) -> int:
    """The smallest power of two that is at least ``count``."""
    return 1 << max(0, count - 1).bit_length()


def sm_count(tensor: torch.Tensor) -> int:
    """SMs of the tensor's GPU; 1 for a CPU tensor, so that an emulated grid-stride loop iterates more than once."""
    if assumed := _ASSUMED.get().multiprocessors:
        return assumed
    return torch.cuda.get_device_properties(tensor.device).multi_processor_count if tensor.is_cuda else 1


def capability(tensor: torch.Tensor) -> tuple[int, int] | None:
    """The compute capability that ``assume_device`` gives, else of the tensor's GPU; None for CPU and meta tensors."""
    if target := _ASSUMED.get().target:
        return parse_target(target)
    return torch.cuda.get_device_capability(tensor.device) if tensor.is_cuda else None


@functools.lru_cache(maxsize=64)
def device_of(device: torch.device) -> Device:
    """The ``Device`` of a torch device; for a device that is not a GPU, only its type as name."""
    if device.type != "cuda":
        return Device(device.type)
    properties: Any = torch.cuda.get_device_properties(device)
    return Device(properties.name, f"sm_{properties.major}{properties.minor}", properties.multi_processor_count)
