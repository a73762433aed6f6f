"""Launch arguments: bind them to the kernel's parameters, find their tensors, convert them for the interpreter."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from warpwise.cuda.errors import ArgumentError
from warpwise.cuda.launch.views import Out, Strided
from warpwise.triton.builder import handle_of
from warpwise.triton.compat import (
    JITFunction,
    TensorHandle,
    TritonSemantic,
    interpreted_options,
    is_descriptor,
    mangle_type,
    tl_dtype,
)
from warpwise.triton.memory import Memory

_SCALAR_TYPES = {
    "u1": tl.int1, "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64, "u8": tl.uint8, "u16": tl.uint16,
    "u32": tl.uint32, "u64": tl.uint64, "fp16": tl.float16, "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64,
}  # fmt: skip
_WRAPPER_DEPTH = 3


def is_output(value: Any) -> bool:
    """Return True if ``value`` is a tensor or tensor descriptor wrapped in ``warpwise.cuda.out``."""
    return isinstance(value, Out)


def unwrap(value: Any) -> Any:
    """Return the tensor inside ``cuda.out(tensor)`` or ``cuda.strided(tensor)``, and other values unchanged."""
    while isinstance(value, (Out, Strided)):
        value = value.value
    return value


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield every tensor in ``values``, including those inside tuples, tensor descriptors and ``cuda.out``."""
    for value in values:
        value = unwrap(value)
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from tensors_in(value)
        elif is_descriptor(value):
            yield value.base
        elif (base := tensor_behind(value)) is not None:
            yield base


def tensor_behind(value: Any) -> torch.Tensor | None:
    """Return the tensor that ``value`` wraps, or None: Triton takes any object with ``data_ptr()`` and ``dtype``.

    It is the tensor at that address among the attributes of ``value``, and among theirs, as in ``value.storage.data``.
    """
    if not callable(getattr(value, "data_ptr", None)):
        return None
    address, level = value.data_ptr(), [value]
    for _ in range(_WRAPPER_DEPTH):
        level = [member for item in level for member in getattr(item, "__dict__", {}).values()]
        for member in level:
            if isinstance(member, torch.Tensor) and member.data_ptr() == address:
                return member
    return None


def tensor_devices(value: Any) -> tuple[set[int], bool]:
    """Return the GPU indices of the tensors in a tuple or descriptor, and True if some of its data is not on a GPU."""
    tensors = list(tensors_in((value,)))
    on_gpus = {tensor.get_device() for tensor in tensors if tensor.is_cuda}
    return on_gpus, isinstance(value, np.ndarray) or any(not tensor.is_cuda for tensor in tensors)


def copied_to_cpu(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy GPU tensors, also wrapped ones, to the CPU. Views that share a storage share one after the copy."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copied(item: Any) -> Any:
        if isinstance(item, torch.Tensor) and item.is_cuda:
            storage = item.untyped_storage()
            host = storages.setdefault(storage.data_ptr(), storage.cpu())
            return torch.empty(0, dtype=item.dtype).set_(host, item.storage_offset(), item.shape, item.stride())
        if isinstance(item, tuple):
            parts = [copied(part) for part in item]
            return type(item)(*parts) if hasattr(item, "_fields") else tuple(parts)
        if isinstance(item, (Out, Strided)):
            return type(item)(copied(item.value))
        if is_descriptor(item):
            return dataclasses.replace(item, base=copied(item.base))
        if (base := tensor_behind(item)) is not None:
            return triton.reinterpret(copied(base), item.dtype) if base.is_cuda else item
        return item

    return tuple(copied(value) for value in values)


def bind(
    function: JITFunction, args: tuple[Any, ...], meta: Mapping[str, Any], options: frozenset[str] | None = None
) -> dict[str, Any]:
    """Return {parameter name: argument} with defaults; raise ``ArgumentError`` for a missing or unknown argument.

    ``options`` are the names in ``meta`` that need not be parameters: by default, the launch options of all backends.
    """
    options = interpreted_options() if options is None else options
    names = set(function.arg_names)
    known = {name: value for name, value in meta.items() if name in names}
    unknown = [name for name in meta if name not in names and name not in options]
    if unknown:
        raise ArgumentError(
            f"{function.__name__}: {unknown[0]!r} is neither a parameter nor a Triton launch option; "
            f"parameters: {', '.join(function.arg_names)}"
        )
    try:
        bound = function.signature.bind(*args, **known)
    except TypeError as error:
        raise ArgumentError(f"{function.__name__}: {error}; parameters: {', '.join(function.arg_names)}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def _specialised(value: Any) -> Any:
    """Return ``value`` with each integer 1 as a constant: the compiler knows that value, also in a tuple."""
    if type(value) is tuple:
        return tuple(_specialised(item) for item in value)
    return tl.constexpr(1) if type(value) is int and value == 1 else value


class ArgumentConverter:
    """Converts launch arguments to the values that an interpreted kernel's parameters hold."""

    def __init__(self, function: JITFunction, memory: Memory, semantic: TritonSemantic) -> None:
        self.function = function
        self.memory = memory
        self.semantic = semantic

    def convert(self, bound: Mapping[str, Any]) -> dict[str, Any]:
        """Return {parameter name: tensor, pointer, tuple or descriptor}; a constexpr keeps its Python value."""
        parameters = {parameter.name: parameter for parameter in self.function.params}
        return {
            name: getattr(value, "value", value)
            if parameters[name].is_constexpr and isinstance(value, tl.constexpr)
            else value
            if parameters[name].is_constexpr
            else self._convert(
                name,
                _specialised(value) if self._is_specialised(parameters[name]) else value,
                parameters[name].annotation_type,
                parameters[name].is_const,
            )
            for name, value in bound.items()
        }

    def _is_specialised(self, parameter: Any) -> bool:
        """Return True if a launch compiles the kernel for the parameter's value of 1."""
        listed = self.function.do_not_specialize
        return not parameter.annotation_type and parameter.num not in listed and parameter.name not in listed

    def _convert(self, name: str, value: Any, declared: str, const: bool) -> Any:
        output = is_output(value)
        value = unwrap(value)
        if isinstance(value, np.ndarray):
            return self._array(name, value, const, output)
        if isinstance(value, torch.Tensor):
            return self._pointer(name, value, const, output)
        if isinstance(value, (bool, int, float)):
            return self._scalar(name, value, declared)
        if isinstance(value, tuple):
            items = [self._convert(f"{name}[{number}]", item, "", const) for number, item in enumerate(value)]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if is_descriptor(value):
            return self._descriptor(name, value, output)
        if value is None or isinstance(value, (tl.constexpr, tl.dtype)) or callable(value):
            return value.value if isinstance(value, tl.constexpr) else value
        if (base := tensor_behind(value)) is not None:
            return self._reinterpreted(name, base, value.dtype, const, output)
        raise ArgumentError(
            f"{self.function.__name__}: {name}: expected a tensor, an array or a number, got {type(value).__name__}"
        )

    def _array(self, name: str, value: np.ndarray[Any, Any], const: bool, output: bool) -> tl.tensor:
        writable = value.flags.writeable
        try:
            shared = torch.from_numpy(value if writable else value.copy())
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{self.function.__name__}: {name}: {error}") from None
        return self._pointer(name, shared, const, output, writable)

    def _pointer(self, name: str, value: torch.Tensor, const: bool, output: bool, writable: bool = True) -> tl.tensor:
        if value.device.type != "cpu":
            raise ArgumentError(f"{self.function.__name__}: {name}: expected a CPU tensor, got one on {value.device}")
        if value.layout != torch.strided:
            raise ArgumentError(f"{self.function.__name__}: {name}: expected a strided tensor, got {value.layout}")
        allocation = self.memory.add(name, value, writable=writable, output=output)
        element = self._element(name, value.dtype)
        kind = tl.pointer_type(element, 1, const) if const else tl.pointer_type(element)
        return tl.tensor(TensorHandle(np.array([allocation.base], dtype=np.uint64), kind), kind)

    def _reinterpreted(self, name: str, base: torch.Tensor, dtype: Any, const: bool, output: bool) -> tl.tensor:
        pointer = self._pointer(name, base, const, output)
        kind = tl.pointer_type(self._element(name, dtype), 1, const)
        return tl.tensor(TensorHandle(pointer.handle.data, kind), kind)

    def _element(self, name: str, dtype: Any) -> tl.dtype:
        try:
            return dtype if isinstance(dtype, tl.dtype) else tl_dtype(dtype)
        except KeyError:
            raise ArgumentError(f"{self.function.__name__}: {name}: no Triton type for {dtype}") from None

    def _scalar(self, name: str, value: bool | float, declared: str) -> tl.tensor:
        inferred = declared if declared in _SCALAR_TYPES else mangle_type(value)
        kind = _SCALAR_TYPES[inferred]
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise ArgumentError(f"{self.function.__name__}: {name}: {value} does not fit in 64 bits")
        source = np.array([value], dtype=np.uint64 if isinstance(value, int) and value >= 2**63 else None)
        return tl.tensor(handle_of(source, kind), kind)

    def _descriptor(self, name: str, value: Any, output: bool) -> Any:
        strides = [self._scalar(f"{name}.strides", stride, "i64") for stride in value.strides[:-1]]
        return self.semantic.make_tensor_descriptor(
            base=self._pointer(name, value.base, False, output),
            shape=[self._scalar(f"{name}.shape", size, "i32") for size in value.shape],
            strides=[*strides, tl.constexpr(1)],
            block_shape=[tl.constexpr(size) for size in value.block_shape],
            padding_option=getattr(value, "padding", "zero"),
            **({"layout": value.layout} if hasattr(value, "layout") else {}),
        )
