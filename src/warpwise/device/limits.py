"""Limits of a kernel by the tensor's GPU: its compute capability, and the shared memory of a block and of an SM."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.device.profiles import Profile
from warpwise.device.target import capability, cdiv, sm_count

HOPPER_SHARED = 227 * 1024  # bytes of shared memory that a block may have on Hopper
SM_SHARED, RESERVED = 228 * 1024, 1024  # bytes of an SM on Hopper, and those that the system reserves for each block


def is_hopper(tensor: torch.Tensor) -> bool:
    """True on a GPU of compute capability 9.0."""
    return capability(tensor) == (9, 0)


def even_shared(tensor: torch.Tensor, blocks: int, shared: int) -> int:
    """Bytes of dynamic shared memory, at least ``shared``, with which no SM has more than its even share of ``blocks``.

    With programmatic dependent launch a GPU places blocks while the previous kernel still runs, on the SMs that have
    room. Without this limit some SMs could have several heavy blocks and others none.
    """
    if not is_hopper(tensor):
        return shared
    over = cdiv(blocks, sm_count(tensor)) + 1  # one more than the even share
    return max(shared, SM_SHARED // over - RESERVED + 128)


def requires_hopper(tensor: torch.Tensor, because: str = "only these GPUs have wgmma") -> str | None:
    """The reason why the tensor's GPU cannot run a kernel for Hopper, or None. CPU and meta tensors give None."""
    if capability(tensor) not in (None, (9, 0)):
        return f"takes a GPU of compute capability 9.0: {because}"
    return None


def requires_capability(tensor: torch.Tensor, major: int, minor: int, because: str) -> str | None:
    """The reason why the tensor's GPU cannot run a kernel for this compute capability and later ones, or None."""
    if (found := capability(tensor)) is not None and found < (major, minor):
        return f"takes a GPU of compute capability {major}.{minor} or later{because}"
    return None


def requires_ampere(tensor: torch.Tensor) -> str | None:
    """The reason why the tensor's GPU has no cp.async, or no mma.sync for these types, or None."""
    return requires_capability(tensor, 8, 0, "")


def shared_bytes(tensor: torch.Tensor) -> int:
    """Bytes of shared memory that a block may have on the tensor's GPU: 0 on a CPU.

    For a meta tensor, those of the assumed compute capability, else Hopper's.
    """
    if tensor.is_meta:
        known = {profile.compute_capability: profile.shared_per_block_optin for profile in Profile.known()}
        return known.get(capability(tensor) or (9, 0), HOPPER_SHARED)
    if not tensor.is_cuda:
        return 0
    properties: Any = torch.cuda.get_device_properties(tensor.device)
    return int(properties.shared_memory_per_block_optin)
