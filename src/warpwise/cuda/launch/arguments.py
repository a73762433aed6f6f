"""Arguments of a launch, checked and packed by the declared C types of the parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from warpwise.cuda.errors import ArgumentError
from warpwise.cuda.launch import scalars, views
from warpwise.cuda.launch.elements import ctype, element
from warpwise.cuda.launch.views import Out, Strided
from warpwise.cuda.source.kernels import KernelDeclaration
from warpwise.cuda.source.signature import Parameter, parse


@dataclass(frozen=True, slots=True)
class Buffer:
    """A pointer parameter of an emulated launch.

    ``address`` and ``nbytes`` are the view's first byte and size (both 0 for a null pointer); ``storage`` is the first
    byte of its storage, to which alignment and aliasing refer. ``const``: the pointee is declared const, so that writes
    are errors. ``output``: the argument is wrapped in ``cuda.out``. ``writable``: the host array may be written.
    """

    name: str
    address: int
    nbytes: int
    element_bytes: int
    element: str
    const: bool
    output: bool
    storage: int
    writable: bool


@dataclass(frozen=True, slots=True)
class Scalar:
    """A by-value parameter of an emulated launch: its bytes in the declared type.

    ``relocation`` of a tensor map: the byte at which it holds an address, and the position of that buffer among the
    arguments.
    """

    name: str
    data: bytes
    relocation: tuple[int, int] | None = None


class TensorMap(ctypes.Structure):
    """A CUtensorMap: 128 opaque bytes for a parameter ``const __grid_constant__ CUtensorMap``; keeps its tensor alive.

    ``recipe`` holds the arguments of ``gpu.tensor_map.encoded`` except the address: layout, box, swizzle, promotion.
    """

    _fields_ = [("opaque", ctypes.c_uint64 * 16)]
    ADDRESS_AT = 0  # the byte of a map without a GPU at which the tensor's address begins
    tensor: torch.Tensor
    recipe: tuple[Any, ...]


class PointerSlot:
    """One pointer parameter: checks the array given for it and converts it to an address or a buffer."""

    def __init__(self, kernel: str, position: int, name: str, declared: str, parameter: Parameter) -> None:
        self.kernel, self.position, self.name, self.declared = kernel, position, name, declared
        self.const = parameter.const
        self.reference = parameter.reference
        self.type = element(parameter.element) if parameter.pointers == 1 else None
        self.element = parameter.element + "*" * (parameter.pointers - 1)
        self.any = parameter.element == "void" and parameter.pointers == 1
        self.addresses = parameter.pointers > 1
        self.dtypes = frozenset(
            self.type.dtypes if self.type else (torch.int64, torch.uint64) if self.addresses else ()
        )
        self.plain = self.type is not None and self.type.lanes == 1 and self.type.kind != "complex"
        self._bytes = self.type.bytes if self.type else 0
        self.code = "P"

    def error(self, came: str, advice: str = "") -> ArgumentError:
        return _error(self, came, advice)

    def gpu(self, value: Any) -> int:
        """The address for a launch on the GPU. The caller has checked that all arrays are on one device."""
        if type(value) is Out:
            if self.const:
                raise self._out_of_const()
            value = value.value
        if isinstance(value, torch.Tensor):
            if self._plainly_fits(value) and value.is_cuda:
                return value.data_ptr()
            if not value.is_cuda:
                raise self.error(views.described(value), "expected a CUDA tensor, as the other arguments are")
            view = views.of_tensor(value, False, self)
        elif value is None:
            return 0
        else:
            view = views.of_any(value, self)
            if not isinstance(view.array, torch.Tensor) and not hasattr(view.array, "__cuda_array_interface__"):
                raise self.error(view.described, "expected an array on the GPU, as the other arguments are")
        self._check_type(view)
        if not self.const and not view.writable:
            raise self._read_only(view)
        self._check_vector(view, view.address)
        return view.address

    def cpu(self, value: Any) -> Buffer:
        """The buffer for an emulated launch."""
        output = type(value) is Out
        if output:
            if self.const:
                raise self._out_of_const()
            value = value.value
            if type(value) is Strided:
                raise self.error(
                    "out(strided(...))",
                    "an output is poisoned and checked whole, gaps included: pass strided(...) alone",
                )
        if isinstance(value, torch.Tensor) and self._plainly_fits(value) and value.is_cpu:
            nbytes = value.nbytes
            if nbytes:
                storage = value.untyped_storage().data_ptr()
                return Buffer(
                    self.name, value.data_ptr(), nbytes, self._bytes, self.element, self.const, output, storage, True
                )
        if value is None:
            if output:
                raise self.error("out(None)", "an output needs an array")
            return Buffer(self.name, 0, 0, self._element_bytes(1), self.element, self.const, False, 0, False)
        view = views.of_tensor(value, False, self) if isinstance(value, torch.Tensor) else views.of_any(value, self)
        if self.addresses:
            raise self.error(
                view.described, "a pointer to pointers cannot be followed on the CPU; pass one array and offsets"
            )
        if view.dtype not in self.dtypes:
            self._check_type(view)
        if not self.const and not view.writable:
            raise self._read_only(view)
        self._check_vector(view, view.address - view.storage)
        address = view.address if view.nbytes else 0
        storage = view.storage if view.nbytes else 0
        return Buffer(
            self.name,
            address,
            view.nbytes,
            self._element_bytes(view.itemsize),
            self.element,
            self.const,
            output,
            storage,
            view.writable,
        )

    def _plainly_fits(self, tensor: torch.Tensor) -> bool:
        """True in the usual case, where no further check is needed. This path is fast."""
        return (
            self.plain
            and tensor.layout is torch.strided
            and tensor.dtype in self.dtypes
            and tensor.is_contiguous()
            and not tensor.is_neg()
            and not tensor.is_conj()
        )

    def _out_of_const(self) -> ArgumentError:
        return self.error("out(...)", "a const pointer cannot be an output")

    def _read_only(self, view: views.View) -> ArgumentError:
        return self.error(f"{view.described}, which is read-only", "declare the parameter const or pass a copy")

    def _element_bytes(self, itemsize: int) -> int:
        return self.type.bytes if self.type else itemsize

    def _check_type(self, view: views.View) -> None:
        """Check the array's dtype against the element type. A user-defined type takes raw bytes."""
        if self.any or view.dtype in self.dtypes:
            return
        if self.type is None and not self.addresses:
            if view.dtype in (torch.uint8, torch.int8, None):
                return
            raise self.error(
                view.described, f"pass the bytes of {self.element}: x.view(torch.uint8), or a structured array"
            )
        expected = " or ".join(
            str(dtype).removeprefix("torch.") for dtype in (self.type.dtypes if self.type else self.dtypes)
        )
        same_width = (
            self.type is not None and view.dtype is not None and view.itemsize * self.type.lanes == self.type.bytes
        )
        advice = f"pass x.to(torch.{expected.split(' ')[0]}) or change the kernel's type"
        if same_width:
            advice += f" (x.view(torch.{expected.split(' ')[0]}) to pass the bits as they are)"
        raise self.error(view.described, f"expected {expected}: {advice}")

    def _check_vector(self, view: views.View, offset: int) -> None:
        """Check that an array for a vector type such as float4 holds whole vectors and is aligned."""
        if self.type is None or self.type.lanes == 1 or view.dtype is None:
            return
        if view.nbytes % self.type.bytes:
            raise self.error(
                view.described,
                f"its {view.nbytes:,} bytes are not a multiple of the {self.type.bytes} of one {self.element}",
            )
        if offset % self.type.align:
            raise self.error(
                f"{view.described} that starts {offset % self.type.align} bytes past a multiple of {self.type.align}",
                f"{self.element} is loaded from multiples of {self.type.align}: pass x.clone()",
            )


class ScalarSlot:
    """One by-value parameter."""

    reference = False

    def __init__(self, kernel: str, position: int, name: str, declared: str, parameter: Parameter, size: int) -> None:
        self.kernel, self.position, self.name, self.declared = kernel, position, name, declared
        self.convert, self.code, self._pack = scalars.converter(parameter.element, size, self)

    def error(self, came: str, advice: str = "") -> ArgumentError:
        return _error(self, came, advice)

    def gpu(self, value: Any) -> Any:
        """The value for ``struct.pack`` with this slot's ``code``."""
        return self.convert(value)

    def cpu(self, value: Any) -> Scalar:
        return Scalar(self.name, self._pack(self.convert(value)))


def _error(slot: PointerSlot | ScalarSlot, came: str, advice: str) -> ArgumentError:
    message = f"{slot.kernel}: argument {slot.position} '{slot.name}' is declared {slot.declared}, got {came}"
    return ArgumentError(f"{message}; {advice}" if advice else message)


class Binder:
    """All parameters of one kernel. It is made once for a kernel, which is slow; binding arguments is fast.

    ``sizes`` are the parameters' sizes in bytes; ``declared`` their types and names as in the source, if known, and
    ``defaults`` those that have default arguments, as "int n = 3".
    """

    @staticmethod
    def of(kernel: str, function_type: str, sizes: Sequence[int], declaration: KernelDeclaration | None) -> Binder:
        """The binder of a kernel by its type, such as ``void (*)(float*, int)``, and its declaration, if known."""
        declared = (declaration.parameters, declaration.defaults) if declaration else ()
        return Binder(kernel, parse(function_type), sizes, *declared)

    def __init__(
        self,
        kernel: str,
        parameters: Sequence[Parameter],
        sizes: Sequence[int],
        declared: Sequence[tuple[str, str]] = (),
        defaults: Sequence[str] = (),
    ) -> None:
        self.kernel, self.defaults = kernel, defaults
        named = declared if len(declared) == len(parameters) else [(p.text, f"#{i}") for i, p in enumerate(parameters)]
        self.signature = ", ".join(f"{text} {name}".strip() for text, name in named)
        self.slots: list[PointerSlot | ScalarSlot] = []
        for position, (parameter, size, (text, name)) in enumerate(zip(parameters, sizes, named, strict=True)):
            name = name or f"#{position}"
            if parameter.reference and parameter.pointers:
                raise ArgumentError(
                    f"{kernel}: parameter {position} '{name}' is a reference to a pointer ({text}): declare a pointer"
                )
            if parameter.reference:  # passed as the address of device memory
                parameter = replace(parameter, pointers=1)
            if parameter.pointers:
                self.slots.append(PointerSlot(kernel, position, name, text, parameter))
            else:
                self.slots.append(ScalarSlot(kernel, position, name, text, parameter, size))
        self._cpu = [slot.cpu for slot in self.slots]
        self._gpu = [slot.gpu for slot in self.slots]

    def cpu(self, args: Sequence[Any]) -> list[Buffer | Scalar]:
        """Buffers and scalars for an emulated launch, in parameter order. Raises ``ArgumentError``."""
        if len(args) != len(self._cpu):
            raise self._count(args)
        bound = [bind(value) for bind, value in zip(self._cpu, args, strict=True)]
        if any(isinstance(value, Out) for value in args):
            self._check_outputs_alone(bound)
        if any(type(value) is TensorMap for value in args):
            self._add_mapped(args, bound)
        return bound

    def _add_mapped(self, args: Sequence[Any], bound: list[Buffer | Scalar]) -> None:
        """Append the memory of the tensors of tensor maps, which the emulator copies as it does that of arrays."""
        for position, (slot, value) in enumerate(zip(self.slots, args, strict=True)):
            if type(value) is not TensorMap:
                continue
            tensor, scalar = value.tensor, bound[position]
            assert isinstance(scalar, Scalar)
            bound[position] = replace(scalar, relocation=(TensorMap.ADDRESS_AT, len(bound)))
            storage, size = tensor.untyped_storage(), tensor.element_size()
            nbytes = int(storage.nbytes() - tensor.storage_offset() * size)
            start, kind = tensor.data_ptr(), ctype(tensor.dtype)
            bound.append(Buffer(slot.name, start, nbytes, size, kind, False, False, storage.data_ptr(), True))

    def gpu(self, args: Sequence[Any]) -> list[Any]:
        """Values for ``struct.pack`` with the slots' codes, for a launch on the GPU. Raises ``ArgumentError``."""
        if len(args) != len(self._gpu):
            raise self._count(args)
        return [bind(value) for bind, value in zip(self._gpu, args, strict=True)]

    def _count(self, args: Sequence[Any]) -> ArgumentError:
        plural = "" if len(self.slots) == 1 else "s"
        message = f"{self.kernel}: takes {len(self.slots)} argument{plural} ({self.signature}), got {len(args)}"
        if self.defaults and len(args) < len(self.slots):
            message += f"; a launch from Python does not use default arguments ({', '.join(self.defaults)}): pass all"
        return ArgumentError(message)

    def _check_outputs_alone(self, bound: Sequence[Buffer | Scalar]) -> None:
        """Check that no output overlaps another argument, since outputs are filled with NaN before the launch."""
        buffers = [part for part in bound if isinstance(part, Buffer) and part.nbytes]
        for output in (part for part in buffers if part.output):
            for other in buffers:
                apart = (
                    other.address + other.nbytes <= output.address or output.address + output.nbytes <= other.address
                )
                if other is not output and not apart:
                    raise ArgumentError(
                        f"{self.kernel}: '{output.name}' is marked out() but shares memory with '{other.name}': an "
                        "output is filled with NaN before the launch; pass it without out() if the kernel reads it"
                    )


def device_of(args: Sequence[Any], kernel: str) -> torch.device | None:
    """The device of all arrays among ``args``, or None if there is no array.

    Raises ``ArgumentError`` that names two arguments on different devices.
    """
    found: torch.device | None = None
    first = 0
    numbers = False  # there are 0-dim CPU arrays, which may be by-value arguments
    for position, value in enumerate(args):
        kind = type(value)
        if kind in _NO_ARRAY:
            continue
        if kind in _MARKS:
            value = value.value
            if type(value) is Strided:
                value = value.value
        if isinstance(value, torch.Tensor):
            device = value.device
            if device.type == "cpu" and kind not in _MARKS and value.dim() == 0:
                numbers = True
                continue
        elif isinstance(value, np.ndarray):
            if kind not in _MARKS and value.ndim == 0:
                numbers = True
                continue
            device = views.CPU
        elif hasattr(value, "__cuda_array_interface__"):
            device = views.cuda_device(value)
        elif kind is TensorMap:
            device = value.tensor.device
        else:
            continue
        if found is None:
            found, first = device, position
        elif device != found:
            raise ArgumentError(
                f"{kernel}: argument {first} is on {found} but argument {position} is on {device}; "
                "move all arrays to one device"
            )
    return found or (views.CPU if numbers else None)


_NO_ARRAY = frozenset({int, float, bool, type(None)})
_MARKS = frozenset({Out, Strided})
