"""Launches recorded once and repeated for tensors that differ from the first ones by their addresses alone.

A launcher's Python (grids, names of kernels, tensor maps, checks of arguments) costs tens of microseconds, and gives the
same for tensors of the same shapes, strides, dtypes and alignment. What it launched is therefore kept, with every
pointer as a tensor's address and an offset, and a repetition packs addresses and calls the driver.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from warpwise.cuda import observe
from warpwise.cuda.gpu import GpuKernel
from warpwise.cuda.module import Launcher
from warpwise.cuda.tensor_map import TensorMap, encoded
from warpwise.cuda.views import Out, Strided

_KEPT_MAPS = 256


class Recording:
    """Kernels of one launch, in order. Call it with the addresses of the tensors it was recorded for, or of others like them."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Sequence[_Step]) -> None:
        self._steps = tuple(steps)

    def __call__(self, addresses: Sequence[int]) -> None:
        """Launch on torch's current stream. Raises ``LaunchError``."""
        for step in self._steps:
            step(addresses)

    def __len__(self) -> int:
        return len(self._steps)


class _Step:
    """One kernel: its launcher, the values of its parameters, and which of them follow the tensors."""

    __slots__ = ("_gpu", "_launcher", "_maps", "_pointers", "_values")

    def __init__(
        self, gpu: GpuKernel, launcher: Launcher, values: list[Any],
        pointers: Sequence[tuple[int, int, int]], maps: Sequence[tuple[int, int, int, _Maps]],
    ) -> None:  # fmt: skip
        self._gpu, self._launcher, self._values = gpu, launcher, values
        self._pointers, self._maps = tuple(pointers), tuple(maps)

    def __call__(self, addresses: Sequence[int]) -> None:
        values = self._values.copy()
        for slot, tensor, offset in self._pointers:
            values[slot] = addresses[tensor] + offset
        for slot, tensor, offset, made in self._maps:
            values[slot] = made[addresses[tensor] + offset]
        self._gpu.launch_values(self._launcher, values)


class _Maps(OrderedDict[int, bytes]):
    """Tensor maps of one layout and box by address, the latest ones kept."""

    def __init__(self, recipe: tuple[Any, ...]) -> None:
        super().__init__()
        self._recipe = recipe
        self._lock = threading.Lock()

    def __missing__(self, address: int) -> bytes:
        made = encoded(address, *self._recipe)
        with self._lock:
            self[address] = made
            if len(self) > _KEPT_MAPS:
                self.popitem(last=False)
        return made


class _Operators(TorchDispatchMode):
    """Notes whether any operator of torch runs that is more than a view."""

    used = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.used = self.used or not func.is_view
        return func(*args, **(kwargs or {}))


class _Recorder:
    """Makes each launch that it is shown, and keeps it while that can be repeated."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.steps: list[_Step] = []
        self.repeatable = True
        self._storages = {tensor.untyped_storage().data_ptr(): at for at, tensor in enumerate(tensors)}
        self._starts = [tensor.data_ptr() for tensor in tensors]
        self._ends = [
            start + tensor.untyped_storage().nbytes() for start, tensor in zip(self._starts, tensors, strict=True)
        ]
        self.repeatable = len(self._storages) == len(
            tensors
        )  # one storage for two: whose offset an address is, is unknown

    def __call__(self, launcher: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        launcher(*args, **options)
        step = self._step(launcher, args) if self.repeatable else None
        if step is None:
            self.repeatable = False
        else:
            self.steps.append(step)

    def _step(self, launcher: Any, args: tuple[Any, ...]) -> _Step | None:
        if type(launcher) is not Launcher or launcher.kernel.module.constants:
            return None
        values: list[Any] = []
        pointers: list[tuple[int, int, int]] = []
        maps: list[tuple[int, int, int, _Maps]] = []
        gpu = launcher.kernel.on_gpu(_device(args))
        for slot, value in enumerate(args):
            given = value.value if isinstance(value, Out | Strided) else value
            if isinstance(given, torch.Tensor | TensorMap):
                tensor = given.tensor if isinstance(given, TensorMap) else given
                at = self._storages.get(tensor.untyped_storage().data_ptr())
                if at is None or (given is tensor and gpu.binder.slots[slot].code != "P"):
                    return None
                offset = tensor.data_ptr() - self._starts[at]
                if isinstance(given, TensorMap):
                    maps.append((slot, at, offset, _Maps(given.recipe)))
                else:
                    pointers.append((slot, at, offset))
                values.append(None)
            elif isinstance(given, int | float | None) and not self._address(given):
                values.append(gpu.binder.slots[slot].gpu(given))
            else:
                return None
        return _Step(gpu, launcher, values, pointers, maps)

    def _address(self, value: Any) -> bool:
        """Whether a number is an address in one of the tensors, which would be another one next time."""
        return (
            any(start <= value < end for start, end in zip(self._starts, self._ends, strict=True)) if value else False
        )


def _device(args: Sequence[Any]) -> torch.device:
    given = (value.value if isinstance(value, Out | Strided) else value for value in args)
    tensors = (value.tensor if isinstance(value, TensorMap) else value for value in given)
    return next((value.device for value in tensors if isinstance(value, torch.Tensor)), torch.device("cuda"))


def record(launch: Callable[[], None], tensors: Sequence[torch.Tensor]) -> Recording | None:
    """Run ``launch``, and give what it launched for ``tensors``, all of them on one GPU; None if that cannot be repeated.

    It cannot where the launch does more than start CUDA kernels on these tensors or parts of them: runs an operator of torch
    (a fill, a copy), a Triton kernel, or hands over a tensor of its own; nor where two of the tensors share memory.
    """
    recorder, operators = _Recorder(tensors), _Operators()
    with observe.observing(recorder), operators:
        launch()
    return Recording(recorder.steps) if recorder.repeatable and recorder.steps and not operators.used else None
