"""Launches recorded once and repeated for tensors that differ from the first ones by their addresses alone.

A launcher's Python (grids, names of kernels, tensor maps, checks of arguments) costs tens of microseconds, and gives the
same for tensors of the same shapes, strides, dtypes and alignment. What it launched is therefore kept, with every
pointer as a tensor's address and an offset, and a repetition packs addresses and calls the driver. Memory that the
launcher allocated for itself is allocated anew each time.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from warpwise.cuda import gpu, observe
from warpwise.cuda.module import Launcher
from warpwise.cuda.tensor_map import TensorMap, encoded
from warpwise.cuda.varying import VaryingScalar, plain
from warpwise.cuda.views import Out, Strided

_KEPT_MAPS = 256
ALIGNMENT = 255  # kernels look at an address modulo 256 bytes at most, the alignment of torch's allocations
_current_device, _raw_stream = gpu._current_device(), gpu._raw_stream()


class Recording:
    """Kernels of one launch, in order. Call it with the addresses of the tensors it was recorded for, or of others like them."""

    __slots__ = ("_index", "_rooms", "_steps")

    def __init__(
        self, index: int, steps: Sequence[_Kernel | _Triton], rooms: Sequence[Callable[[], torch.Tensor]] = ()
    ) -> None:
        self._index, self._steps, self._rooms = index, tuple(steps), tuple(rooms)

    def __call__(self, addresses: Sequence[int], scalars: Sequence[Any] = ()) -> None:
        """Launch on torch's current stream, with new values of the varying scalars. Raises ``LaunchError``."""
        if _current_device() != self._index:
            with torch.cuda.device(self._index):
                self(addresses, scalars)
            return
        if self._rooms:
            rooms = [room() for room in self._rooms]  # the stream keeps what kernels before a later allocation need
            addresses = [*addresses, *[room.data_ptr() for room in rooms]]
        stream = _raw_stream(self._index)
        for step in self._steps:
            step(addresses, stream, scalars)

    def __len__(self) -> int:
        return len(self._steps)


Pointers = Sequence[tuple[int, int, int]]
"""Which value is which tensor's address, and how many bytes past it."""
Scalars = Sequence[tuple[int, int, Callable[[Any], Any]]]
"""Which value is which varying scalar, and the function that checks and converts it."""


class _Kernel:
    """A CUDA kernel: its launcher, the values of its parameters, and which of them follow the tensors."""

    __slots__ = ("_gpu", "_launcher", "_maps", "_pointers", "_scalars", "_values")

    def __init__(
        self, kernel: gpu.GpuKernel, launcher: Launcher, values: list[Any], pointers: Pointers,
        maps: Sequence[tuple[int, int, int, _Maps]], scalars: Scalars,
    ) -> None:  # fmt: skip
        self._gpu, self._launcher, self._values = kernel, launcher, values
        self._pointers, self._maps, self._scalars = tuple(pointers), tuple(maps), tuple(scalars)

    def __call__(self, addresses: Sequence[int], stream: int, scalars: Sequence[Any]) -> None:
        values = self._values.copy()
        for slot, index, bind in self._scalars:
            values[slot] = bind(scalars[index])
        for slot, tensor, offset in self._pointers:
            values[slot] = addresses[tensor] + offset
        for slot, tensor, offset, made in self._maps:
            values[slot] = made[addresses[tensor] + offset]
        self._gpu.launch_values(self._launcher, values)


class _Triton:
    """A compiled Triton kernel with its grid, which takes addresses for tensors and what has a ``data_ptr`` for a descriptor's."""

    __slots__ = ("_descriptors", "_launch", "_pointers", "_scalars", "_values")

    def __init__(
        self, launch: Callable[[int, list[Any]], None], values: list[Any], pointers: Pointers,
        descriptors: Sequence[tuple[int, int, int, Any]], scalars: Scalars,
    ) -> None:  # fmt: skip
        self._launch, self._values = launch, values
        self._pointers, self._descriptors, self._scalars = tuple(pointers), tuple(descriptors), tuple(scalars)

    def __call__(self, addresses: Sequence[int], stream: int, scalars: Sequence[Any]) -> None:
        values = self._values.copy()
        for slot, index, bind in self._scalars:
            values[slot] = bind(scalars[index])
        for slot, tensor, offset in self._pointers:
            values[slot] = addresses[tensor] + offset
        for slot, tensor, offset, descriptor in self._descriptors:
            values[slot] = described = copy.copy(descriptor)
            described.base = _Address(addresses[tensor] + offset)
        self._launch(stream, values)


class _Address(int):
    """An address that can be asked for itself, as a tensor can."""

    def data_ptr(self) -> int:
        return self


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


_ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}


class _Recorder(TorchDispatchMode):
    """Makes each launch that it is shown and keeps it; notes what torch allocates, and whether it does more than that."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.steps: list[_Kernel | _Triton] = []
        self.rooms: list[torch.Tensor] = []
        self._tensors = list(tensors)
        self._storages = {tensor.untyped_storage().data_ptr(): at for at, tensor in enumerate(tensors)}
        # With one storage for two tensors nobody knows whose offset an address is.
        self.repeatable = len(self._storages) == len(tensors)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in _ALLOCATIONS and made.is_cuda and made.numel():
            self.rooms.append(made)  # held, so that nothing else is put there
            self._storages[made.untyped_storage().data_ptr()] = len(self._tensors)
            self._tensors.append(made)
        elif not func.is_view:
            self.repeatable = False
        return made

    def show(self, launcher: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """Launch, and keep how to do it again."""
        result = launcher(*map(plain, args), **{name: plain(value) for name, value in options.items()})
        step: _Kernel | _Triton | None = None
        if self.repeatable:
            step = (
                self._kernel(launcher, args)
                if type(launcher) is Launcher
                else self._triton(launcher, args, options, result)
            )
        if step is None:
            self.repeatable = False
        else:
            self.steps.append(step)

    def _kernel(self, launcher: Launcher, args: tuple[Any, ...]) -> _Kernel | None:
        if launcher.kernel.module.constants:
            return None
        values: list[Any] = []
        pointers: list[tuple[int, int, int]] = []
        maps: list[tuple[int, int, int, _Maps]] = []
        scalars: list[tuple[int, int, Callable[[Any], Any]]] = []
        kernel = launcher.kernel.on_gpu(_device(args))
        for slot, value in enumerate(args):
            given = value.value if isinstance(value, Out | Strided) else value
            if isinstance(given, VaryingScalar):
                scalars.append((slot, given.index, kernel.binder.slots[slot].gpu))
                values.append(None)
                continue
            if isinstance(given, TensorMap):
                if (place := self._place(given.tensor)) is None:
                    return None
                maps.append((slot, *place, _Maps(given.recipe)))
                values.append(None)
            elif isinstance(given, torch.Tensor) and not given.data_ptr():
                values.append(0)
            elif isinstance(given, torch.Tensor):
                if (place := self._place(given)) is None or kernel.binder.slots[slot].code != "P":
                    return None
                pointers.append((slot, *place))
                values.append(None)
            elif self._constant(given):
                values.append(kernel.binder.slots[slot].gpu(given))
            else:
                return None
        return _Kernel(kernel, launcher, values, pointers, maps, scalars)

    def _triton(
        self, launcher: Any, args: tuple[Any, ...], options: Mapping[str, Any], compiled: Any
    ) -> _Triton | None:
        """A launch of ``warpwise.triton``, which says what the compiled kernel is handed."""
        bound = launcher.resolve_arguments(args, options)
        if bound is None or not hasattr(compiled, "packed_metadata"):
            return None
        grid, values = bound
        pointers: list[tuple[int, int, int]] = []
        descriptors: list[tuple[int, int, int, Any]] = []
        scalars: list[tuple[int, int, Callable[[Any], Any]]] = []
        for slot, value in enumerate(values):
            if isinstance(value, VaryingScalar):
                if not _takes_any_value(launcher.kernel.params[slot], value.value):
                    return None
                scalars.append((slot, value.index, type(value.value)))
                values[slot] = value.value
                continue
            tensor = value if isinstance(value, torch.Tensor) else getattr(value, "base", None)
            if tensor is value and isinstance(tensor, torch.Tensor) and not tensor.data_ptr():
                values[slot] = 0
            elif isinstance(tensor, torch.Tensor):
                if (place := self._place(tensor)) is None:
                    return None
                if tensor is value:
                    pointers.append((slot, *place))
                else:
                    template = copy.copy(value)
                    template.base = None  # a recording keeps no tensor alive
                    descriptors.append((slot, *place, template))
                values[slot] = None
            elif not (self._constant(value) or isinstance(value, str) or hasattr(value, "primitive_bitwidth")):
                return None
        from warpwise.triton.compat import direct_launcher

        return _Triton(direct_launcher(compiled, grid, values), values, pointers, descriptors, scalars)

    def _place(self, tensor: torch.Tensor) -> tuple[int, int] | None:
        """Which of the tensors ``tensor`` is or lies in, and how many bytes after its beginning; None for memory of others."""
        at = self._storages.get(tensor.untyped_storage().data_ptr())
        return None if at is None else (at, tensor.data_ptr() - self._tensors[at].data_ptr())

    def _constant(self, value: Any) -> bool:
        """Whether ``value`` is a number, and no address in one of the tensors, which would be another one next time."""
        if not isinstance(value, int | float | None):
            return False
        spans = ((tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()) for tensor in self._tensors)
        return not value or not any(start <= value < start + size for start, size in spans)


def _takes_any_value(parameter: Any, value: Any) -> bool:
    """Whether a Triton kernel compiled for ``value`` is right for others of its type: it specialises on integers."""
    return not parameter.is_constexpr and (isinstance(value, float) or bool(parameter.do_not_specialize))


def _device(args: Sequence[Any]) -> torch.device:
    given = (value.value if isinstance(value, Out | Strided) else value for value in args)
    tensors = (value.tensor if isinstance(value, TensorMap) else value for value in given)
    return next((value.device for value in tensors if isinstance(value, torch.Tensor)), torch.device("cuda"))


def record(
    launch: Callable[[], None], tensors: Sequence[torch.Tensor], scalars: Sequence[VaryingScalar] = ()
) -> Recording | None:
    """Run ``launch``, and give what it launched for ``tensors``, all of them on one GPU; None if that cannot be repeated.

    ``scalars`` are the varying scalars that ``launch`` passes on; a replay takes new values for them by their index.

    It cannot where the launch does more than allocate memory and start CUDA and Triton kernels on it and these tensors: runs
    another operator of torch (a fill, a copy), or hands over a tensor from elsewhere; nor where two of the tensors share
    memory, or a kernel's ``__constant__`` variables are set.
    """
    recorder = _Recorder(tensors)
    with observe.observing(recorder.show), recorder:
        launch()
    if not recorder.repeatable or not recorder.steps or any(scalar.read for scalar in scalars):
        return None
    return Recording(tensors[0].get_device(), recorder.steps, [allocator(room) for room in recorder.rooms])


def allocator(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    """What allocates tensors that lie in memory as ``tensor`` does, of its dtype and on its device.

    Inductor's own function for that, if the device is the current one, costs half of what an operator costs.
    """
    size, stride, dtype, index = tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.get_device()
    empty = tensor.new_empty(0).new_empty_strided  # dtype and device need no parsing then
    direct = getattr(getattr(torch._C._dynamo, "guards", None), "_empty_strided_cuda", None)
    if direct is None or not tensor.is_cuda:
        return lambda: empty(size, stride)
    return lambda: direct(size, stride, dtype) if _current_device() == index else empty(size, stride)


def replayer(
    recording: Recording, outputs: Sequence[torch.Tensor | None], places: Sequence[int], varying: Sequence[int]
) -> Callable[[tuple[Any, ...]], Any]:
    """``replay(args)``, which allocates tensors like ``outputs`` and repeats the recording for the arguments ``args``.

    ``places`` are the positions of the recorded tensors in ``args``, ``varying`` those of the varying scalars. ``replay``
    returns the output, or a tuple of several; None, and nothing is launched, if an output is not aligned to 256 bytes.
    """
    if len(outputs) == 1 and outputs[0] is not None and not varying:
        allocate = allocator(outputs[0])

        def replay_one(args: tuple[Any, ...]) -> Any:
            result = allocate()
            address = result.data_ptr()
            if address & ALIGNMENT:
                return None
            recording([address, *[args[at].data_ptr() for at in places]])
            return result

        return replay_one

    allocators = [None if output is None else allocator(output) for output in outputs]
    filled = [at for at, output in enumerate(outputs) if output is not None and output.numel()]

    def replay(args: tuple[Any, ...]) -> Any:
        results: list[Any] = [None if allocate is None else allocate() for allocate in allocators]
        addresses = [results[at].data_ptr() for at in filled]
        if any(address & ALIGNMENT for address in addresses):
            return None
        recording([*addresses, *[args[at].data_ptr() for at in places]], [args[at] for at in varying])
        return results[0] if len(results) == 1 else tuple(results)

    return replay
