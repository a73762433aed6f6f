"""Copies of a GPU launch's arguments to the CPU, for an emulated run of the same launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from warpwise.cuda.launch.views import Out, Strided


def to_cpu(args: Sequence[Any]) -> tuple[Any, ...]:
    """``args`` with every CUDA array copied to the CPU. Views of one storage become views of one copy, at the same
    offsets.
    """
    storages: dict[int, torch.UntypedStorage] = {}
    return tuple(_copy(value, storages) for value in args)


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
