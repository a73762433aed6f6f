"""The memory that a launch needs on this machine, before anything is allocated."""

from __future__ import annotations

from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from warpwise.arguments.values import tensors
from warpwise.operation import Case, Op

COPIES = 3
"""The arguments, a copy that the machine code works on, and what drawing or comparing them needs."""


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
