"""Recorded launches, replayed for tensors that differ from the recorded ones only by their addresses.

The Python code of a launch (grids, kernel names, tensor maps, argument checks) takes tens of microseconds, and its
result depends only on the tensors' shapes, strides, dtypes and alignment. A recording keeps the launched kernels with
every pointer as a tensor's address plus an offset; a replay packs addresses and calls the driver. Memory that the
recorded code allocates is allocated again at each replay.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from warpwise import fastcall, ranges
from warpwise.arguments.values import in_forward_mode, is_marked, single
from warpwise.cuda.gpu import semaphores
from warpwise.cuda.gpu.driver import current_device_function, current_stream_function
from warpwise.cuda.gpu.prepared import launch_function
from warpwise.cuda.gpu.steps import CudaStep, Maps, TritonStep
from warpwise.cuda.gpu.tensor_map import TensorMap
from warpwise.cuda.launch import intercept
from warpwise.cuda.launch.extents import extent
from warpwise.cuda.launch.launcher import Launcher
from warpwise.cuda.launch.varying import VaryingScalar, plain
from warpwise.cuda.launch.views import Out, Strided

ALIGNMENT = 255  # kernels look at an address modulo 256 bytes at most, the alignment of torch's allocations
_current_device, _raw_stream = current_device_function(), current_stream_function()


class Recording:
    """A sequence of kernels. Call it with the addresses of tensors that have the layout of the recorded ones."""

    __slots__ = ("allocators", "index", "steps")

    def __init__(
        self,
        index: int,
        steps: Sequence[CudaStep | TritonStep],
        allocators: Sequence[Callable[[], torch.Tensor]] = (),
    ) -> None:
        self.index, self.steps, self.allocators = index, tuple(steps), tuple(allocators)

    def __call__(self, addresses: Sequence[int], scalars: Sequence[Any] = ()) -> None:
        """Launch on torch's current stream, with new values of the varying scalars. Raises ``LaunchError``."""
        if _current_device() != self.index:
            with torch.cuda.device(self.index):
                self(addresses, scalars)
            return
        if self.allocators:
            allocated = [allocate() for allocate in self.allocators]  # freed memory is reused in stream order only
            addresses = [*addresses, *[tensor.data_ptr() for tensor in allocated]]
        stream = _raw_stream(self.index)
        for step in self.steps:
            step(addresses, stream, scalars)

    def __len__(self) -> int:
        return len(self.steps)


_ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}


class _Recorder(TorchDispatchMode):
    """Makes and records each intercepted launch. Also tracks the allocations and the other operators of torch; the
    latter prevent a replay.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.steps: list[CudaStep | TritonStep] = []
        self.allocators: list[Callable[[], torch.Tensor]] = []  # of the tensors that follow the given ones
        self._tensors = list(tensors)  # kept alive, so that no memory is reused during recording
        self._storages = {tensor.untyped_storage().data_ptr(): at for at, tensor in enumerate(tensors)}
        # If two tensors share a storage, the owner of an address in it is ambiguous.
        self.repeatable = len(self._storages) == len(tensors)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if semaphores.is_allocating():
            return made
        if func.overloadpacket.__name__ in _ALLOCATIONS and made.is_cuda:
            if made.numel():  # a tensor without elements has no address
                self._add(made, Empty(made))
        elif not func.is_view:
            self.repeatable = False
        return made

    def _add(self, tensor: torch.Tensor, allocate: Callable[[], torch.Tensor]) -> None:
        """Add a tensor. A replay calls ``allocate`` to get it."""
        self.allocators.append(allocate)
        self._storages[tensor.untyped_storage().data_ptr()] = len(self._tensors)
        self._tensors.append(tensor)

    def intercept(self, launcher: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """The interceptor: make the launch and record it."""
        result = launcher(*map(plain, args), **{name: plain(value) for name, value in options.items()})
        step: CudaStep | TritonStep | None = None
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

    def _kernel(self, launcher: Launcher, args: tuple[Any, ...]) -> CudaStep | None:
        if launcher.kernel.module.constants:
            return None
        values: list[Any] = []
        pointers: list[tuple[int, int, int]] = []
        maps: list[tuple[int, int, int, Maps]] = []
        scalars: list[tuple[int, int, Callable[[Any], Any]]] = []
        kernel = launcher.kernel.on_gpu(_device(args))
        for slot, value in enumerate(args):
            given = value.value if isinstance(value, Out | Strided) else value
            if isinstance(given, VaryingScalar):
                scalars.append((slot, given.index, kernel.binder.slots[slot].gpu))
                values.append(None)
                continue
            if isinstance(given, TensorMap):
                if (place := self._locate(given.tensor)) is None:
                    return None
                maps.append((slot, *place, Maps(given.recipe)))
                values.append(None)
            elif isinstance(given, torch.Tensor) and not given.data_ptr():
                values.append(0)
            elif isinstance(given, torch.Tensor):
                if (place := self._locate(given)) is None or kernel.binder.slots[slot].code != "P":
                    return None
                pointers.append((slot, *place))
                values.append(None)
            elif self._constant(given):
                values.append(kernel.binder.slots[slot].gpu(given))
            else:
                return None
        return CudaStep(kernel, launcher, values, pointers, maps, scalars)

    def _triton(
        self, launcher: Any, args: tuple[Any, ...], options: Mapping[str, Any], compiled: Any
    ) -> TritonStep | None:
        """A step for a launch of ``warpwise.triton``, or None if it cannot be replayed."""
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
                if (place := self._locate(tensor)) is None:
                    return None
                if tensor is value:
                    pointers.append((slot, *place))
                else:
                    template = copy.copy(value)
                    template.base = None  # a recording must not keep tensors alive
                    descriptors.append((slot, *place, template))
                values[slot] = None
            elif not (self._constant(value) or isinstance(value, str) or hasattr(value, "primitive_bitwidth")):
                return None
        return TritonStep(launcher.relaunch(compiled, grid, values), values, pointers, descriptors, scalars)

    def _locate(self, tensor: torch.Tensor) -> tuple[int, int] | None:
        """(index, offset in bytes) of ``tensor`` in the recorded tensors, or None if it is not in their storages."""
        if tensor.untyped_storage().data_ptr() not in self._storages and semaphores.includes(tensor):
            self._add(tensor, functools.partial(semaphores.on_device, tensor.get_device(), len(tensor)))
        at = self._storages.get(tensor.untyped_storage().data_ptr())
        return None if at is None else (at, tensor.data_ptr() - self._tensors[at].data_ptr())

    def _constant(self, value: Any) -> bool:
        """True if ``value`` is a number or a structure of numbers that contains no address in one of the tensors. Such
        an address would change at a replay.
        """
        if isinstance(value, ctypes.Structure):
            raw = bytes(value)
            words = (int.from_bytes(raw[at : at + 8], sys.byteorder) for at in range(0, len(raw), 4))
            return all(map(self._constant, words))
        if not isinstance(value, int | float | None):
            return False
        spans = ((tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()) for tensor in self._tensors)
        return not value or not any(start <= value < start + size for start, size in spans)


def _takes_any_value(parameter: Any, value: Any) -> bool:
    """True if a Triton kernel compiled for ``value`` is valid for its whole type: Triton specialises on integers."""
    return not parameter.is_constexpr and (isinstance(value, float) or bool(parameter.do_not_specialize))


def _device(args: Sequence[Any]) -> torch.device:
    given = (value.value if isinstance(value, Out | Strided) else value for value in args)
    tensors = (value.tensor if isinstance(value, TensorMap) else value for value in given)
    return next((value.device for value in tensors if isinstance(value, torch.Tensor)), torch.device("cuda"))


def record(
    launch: Callable[[], None], tensors: Sequence[torch.Tensor], scalars: Sequence[VaryingScalar] = ()
) -> Recording | None:
    """Run ``launch`` and return a recording of its kernels for ``tensors``, all on one GPU.

    Returns None if the launch cannot be replayed. It can be replayed if it only allocates memory and launches CUDA and
    Triton kernels on that memory and ``tensors``. It cannot if it runs another operator of torch (a fill, a copy),
    passes any other tensor, or sets ``__constant__`` variables, or if two of the tensors share memory. ``scalars`` are
    the varying scalars that ``launch`` passes to kernels; a replay takes new values for them, by their index.
    """
    recorder = _Recorder(tensors)
    with intercept.intercepting(recorder.intercept), recorder:
        launch()
    if not recorder.repeatable or not recorder.steps or any(scalar.read for scalar in scalars):
        return None
    return Recording(tensors[0].get_device(), recorder.steps, recorder.allocators)


def have_own_memory(tensors: Sequence[torch.Tensor]) -> bool:
    """True if no two of ``tensors`` share a storage."""
    return len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)


def with_own_memory(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same shape, strides and address modulo 256 bytes, to be recorded in place of ``tensor``.

    An address in memory that two tensors share could belong to either.
    """
    span = extent(tensor)
    bytes_before = tensor.data_ptr() & ALIGNMENT
    memory = torch.empty(bytes_before + span * tensor.element_size(), dtype=torch.uint8, device=tensor.device)
    flat = memory[bytes_before:].view(tensor.dtype)
    flat.copy_(tensor.detach().as_strided((span,), (1,)))
    return flat.as_strided(tensor.shape, tensor.stride())


class Empty:
    """Allocates tensors with the shape, strides, dtype and device of ``like``.

    Inductor's allocation function, used on the current device, takes half the time of an operator.
    """

    __slots__ = ("_direct", "_empty", "dtype", "index", "size", "stride")

    def __init__(self, like: torch.Tensor) -> None:
        self.size, self.stride, self.dtype, self.index = tuple(like.shape), like.stride(), like.dtype, like.get_device()
        self._empty = like.new_empty(0).new_empty_strided  # dtype and device need no parsing then
        direct = getattr(getattr(torch._C._dynamo, "guards", None), "_empty_strided_cuda", None)
        self._direct = direct if like.is_cuda else None

    def __call__(self) -> torch.Tensor:
        if self._direct is not None and _current_device() == self.index:
            made: torch.Tensor = self._direct(self.size, self.stride, self.dtype)
            return made
        return self._empty(self.size, self.stride)


def replayer(
    recording: Recording,
    outputs: Sequence[torch.Tensor | None],
    places: Sequence[tuple[int, bool]],
    varying: Sequence[int],
    launch: Callable[..., Any],
) -> Callable[..., Any]:
    """``replay(*args)``, which allocates tensors like ``outputs`` and repeats the recording for the arguments ``args``.

    ``places`` are the positions of the recorded tensors in ``args``, each with True if the launches read a contiguous
    copy; ``varying`` are the positions of the varying scalars. ``replay`` returns the output, or a tuple of several. It
    calls ``launch(*args)`` instead if launches are intercepted or profiled, in forward-mode differentiation, for a
    negated or conjugated view, and if an output or a copy is not aligned to 256 bytes.
    """
    allocators = [None if output is None else Empty(output) for output in outputs]
    filled = [at for at, output in enumerate(outputs) if output is not None and output.numel()]
    if (native := _native(recording, allocators, filled, places, varying, launch)) is not None:
        return native
    interceptors, profiling = intercept.INTERCEPTORS, ranges.profiling_active

    def replay(*args: Any) -> Any:
        tensors = [args[at] for at, _ in places]
        if interceptors or in_forward_mode() or profiling() or any(map(is_marked, tensors)):
            return launch(*args)
        results: list[Any] = [None if allocate is None else allocate() for allocate in allocators]
        copies = [tensor.contiguous() for (_, copied), tensor in zip(places, tensors, strict=True) if copied]
        own = [*(results[at] for at in filled), *copies]
        if any(tensor.data_ptr() & ALIGNMENT for tensor in own):
            return launch(*args)
        rest = iter(copies)
        given = [next(rest) if copied else args[at] for at, copied in places]
        recording([tensor.data_ptr() for tensor in (*own[: len(filled)], *given)], [args[at] for at in varying])
        return single(results)

    return replay


def _native(
    recording: Recording,
    outputs: Sequence[Empty | None],
    filled: Sequence[int],
    places: Sequence[tuple[int, bool]],
    varying: Sequence[int],
    launch: Callable[..., Any],
) -> Callable[..., Any] | None:
    """``replay`` in C++, or None without the library, with NVTX ranges, or for launches that Python must make."""
    library = native_library()
    steps = [step.native() for step in recording.steps]
    if library is None or ranges.NVTX or None in steps:
        return None
    made: Callable[..., Any] = library.Replay(
        recording.index, steps, outputs, filled, recording.allocators, places, varying, launch
    )
    return made


def native_library() -> Any:
    """``fastcall.library()``, set up for this process."""
    global _configured
    library = fastcall.library()
    if library is not None and not _configured:
        launch = ctypes.cast(launch_function(), ctypes.c_void_p).value or 0
        library.configure(launch, _raw_stream, _current_device, intercept.INTERCEPTORS, vars(forward_ad))
        _configured = True
    return library


_configured = False
