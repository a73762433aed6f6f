"""Copies of a launch's arguments: of a GPU launch to the CPU, and of an emulated launch to repeat it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from warpwise.cuda.launch.views import Out, Strided


def to_cpu(args: Sequence[Any]) -> tuple[Any, ...]:
    """``args`` with every CUDA array copied to the CPU. Views of one storage become views of one copy, at the same
    offsets.
    """
    storages: dict[int, torch.UntypedStorage] = {}
    return tuple(_copy(value, storages) for value in args)


def saved(args: Sequence[Any]) -> list[torch.Tensor | np.ndarray | None]:
    """Copies of the arrays on the CPU among ``args``; None for other arguments."""
    return [None if (array := _array(value)) is None else _duplicate(array) for value in args]


def restore(args: Sequence[Any], copies: Sequence[torch.Tensor | np.ndarray | None]) -> None:
    """Give the arrays among ``args`` the values of ``saved``."""
    for value, copy in zip(args, copies, strict=True):
        array = _array(value)
        if isinstance(array, torch.Tensor) and isinstance(copy, torch.Tensor):
            array.copy_(copy)
        elif isinstance(array, np.ndarray) and array.flags.writeable:
            array[...] = copy


def restore_variables(variables: Sequence[tuple[int, bytes]]) -> None:
    """Write values to their addresses: those of ``Launcher.variables``."""
    for address, value in variables:
        ctypes.memmove(address, value, len(value))


def _array(value: Any) -> torch.Tensor | np.ndarray | None:
    inner = value.value if isinstance(value, Out | Strided) else value
    return inner.detach() if isinstance(inner, torch.Tensor) else inner if isinstance(inner, np.ndarray) else None


def _duplicate(array: torch.Tensor | np.ndarray) -> torch.Tensor | np.ndarray:
    return array.clone() if isinstance(array, torch.Tensor) else array.copy()


def _copy(value: Any, storages: dict[int, torch.UntypedStorage]) -> Any:
    if isinstance(value, Out | Strided):
        return type(value)(_copy(value.value, storages))
    if isinstance(value, torch.Tensor) and value.is_cuda:
        storage = value.untyped_storage()
        address = storage.data_ptr()
        if address not in storages:
            storages[address] = storage.cpu()
        empty = torch.empty(0, dtype=value.dtype)
        return empty.set_(storages[address], value.storage_offset(), value.shape, value.stride())
    if not isinstance(value, torch.Tensor) and hasattr(value, "__cuda_array_interface__"):
        return _copy(torch.as_tensor(value, device="cuda"), storages)
    return value
