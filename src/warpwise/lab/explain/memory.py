"""The memory that a launch needs on this machine, before anything is allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from warpwise.arguments.values import map_tensors, tensors
from warpwise.machine import sparse
from warpwise.operation import Case, Op

COPIES = 3
"""The arguments, a copy that the machine code works on, and what drawing or comparing them needs."""


SPARSE_BYTES = 1 << 38
"""The most address space that arguments without memory may take."""


def available() -> int | None:
    """The bytes that can be allocated without swapping, or None if the system does not report them."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None


def fits(nbytes: int) -> bool:
    """False if arguments of ``nbytes`` bytes, and the copies of them that are made, exceed the available memory."""
    free = available()
    return free is None or COPIES * nbytes <= free


def argument_bytes(op: Op, case: Case, dtype: torch.dtype) -> int:
    """The bytes of the arguments and outputs at ``case``, from fake tensors.

    If the shapes depend on values, the bytes of one element for each index of the longest dimension: a lower bound.
    """
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            args = op.spec.arguments(case, dtype, torch.device("cpu"), 0)
            made = [*tensors(args), *tensors(op.allocate(*args))]
            return sum(tensor.numel() * tensor.element_size() for tensor in made)
    except Exception:  # noqa: BLE001 - a function of the specification may reject fake tensors in any way
        return max(case.sizes.values(), default=0) * dtype.itemsize


def require_memory(op: Op, case: Case, dtype: torch.dtype) -> None:
    """Raise ``ValueError`` if the arguments of ``case`` do not fit into the available memory."""
    needed = argument_bytes(op, case, dtype)
    if not fits(needed):
        raise ValueError(
            f"{op.name}: {case} has {needed / 1e9:,.1f} GB of arguments and outputs, of which {COPIES} copies do not "
            f"fit into the {(available() or 0) / 1e9:,.1f} GB of available memory: choose a smaller size"
        )


def without_memory(op: Op, case: Case, dtype: torch.dtype) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Arguments and outputs of ``case`` that do not fit into memory: zeros that occupy none. None if they fit.

    Raises ``ValueError`` if they do not fit and cannot be made: their shapes depend on values, or are too large.
    """
    needed = argument_bytes(op, case, dtype)
    if fits(needed):
        return None
    if needed > SPARSE_BYTES:
        require_memory(op, case, dtype)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            fakes = op.spec.arguments(case, dtype, torch.device("cpu"), 0)
            outputs = op.allocate(*fakes)
        storages: dict[int, torch.Tensor] = {}

        def zeros(fake: torch.Tensor) -> torch.Tensor:
            storage = fake.untyped_storage()
            if storage._cdata not in storages:
                storages[storage._cdata] = torch.frombuffer(sparse.reserved(storage.nbytes()), dtype=torch.uint8)
            whole = storages[storage._cdata][: storage.nbytes() // fake.element_size() * fake.element_size()]
            return whole.view(fake.dtype).as_strided(fake.shape, fake.stride(), fake.storage_offset())

        return map_tensors(zeros, fakes), map_tensors(zeros, outputs)
    except Exception:  # a function of the specification may reject fake tensors in any way
        require_memory(op, case, dtype)
        raise


class LargeTensorsUntouched(TorchDispatchMode):
    """Refuses operations of PyTorch that read or write a tensor that does not fit into memory."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = tensors([*args, *(kwargs or {}).values()])
        reads = not func.is_view and not func._schema.name.endswith(("empty", "empty_like", "empty_strided"))
        if reads and any(not fits(tensor.nbytes) for tensor in given):
            raise ValueError(f"{func}: PyTorch reads or writes an argument that does not fit into the available memory")
        return func(*args, **(kwargs or {}))
