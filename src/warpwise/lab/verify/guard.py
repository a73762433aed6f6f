"""Poisoned outputs between guard bands, poisoned workspaces, and snapshots of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from warpwise.arguments.values import tensors
from warpwise.cuda.launch.extents import extent_bytes
from warpwise.operation import Unsized

ALIGNMENT = 512  # bytes: the alignment of PyTorch's CUDA allocator
SMALLEST_GUARD = 1 << 13  # bytes: more than 256 threads write with 16-byte stores
LARGEST_GUARD = 1 << 20


def poison(dtype: torch.dtype, run: int = 0) -> int:
    """The byte that outputs are filled with: NaN for floating point; for integers two patterns alternate by run."""
    if dtype.is_floating_point or dtype.is_complex:
        return 0xFF
    if dtype == torch.bool:
        return 1 - run % 2
    return 0x5A if run % 2 else 0xA5


@dataclass(frozen=True)
class Guarded:
    """An output or a mutated argument, ``view``, between guard bands in ``buffer``, filled with ``pattern``."""

    view: torch.Tensor
    buffer: torch.Tensor
    pattern: int

    def unwritten(self, index: tuple[int, ...]) -> bool:
        """True if every byte of the element at ``index`` still has the pattern."""
        element = self.view[index].reshape(1).view(torch.uint8)
        return bool((element == self.pattern).all())

    def write_outside(self) -> int | None:
        """Return the offset in bytes, from the first byte of ``view``, of the first guard byte that changed, or None.

        Fills ``view`` with the pattern again: copy the result first.
        """
        start = int(self.view.storage_offset()) * self.view.element_size()
        if self.view.numel():
            filler = torch.full((self.view.element_size(),), self.pattern, dtype=torch.uint8, device=self.view.device)
            self.view.copy_(filler.view(self.view.dtype)[0].expand(self.view.shape))
        changed = self.buffer != self.pattern
        return int(changed.nonzero()[0]) - start if bool(changed.any()) else None


class GuardedUnsized(Unsized):
    """An output whose size depends on the data, allocated between guard bands."""

    def __init__(self, output: Unsized, run: int) -> None:
        super().__init__(output.name, output.shape, output.dtype, output.device)
        self.run, self.guard = run, guarded(torch.empty(0, dtype=output.dtype, device=output.device), run)

    def empty(self, shape: Sequence[Any]) -> torch.Tensor:
        template = torch.empty(1, dtype=self.dtype, device=self.device).expand(tuple(shape))
        self.guard = guarded(torch.empty_like(template, memory_format=torch.contiguous_format), self.run)
        return self.guard.view


def guarded_copy(values: torch.Tensor, run: int = 0) -> Guarded:
    """``values`` between guard bands: the same shape, strides and alignment."""
    made = guarded(values, run, values.data_ptr() % ALIGNMENT // values.element_size())
    made.view.copy_(values)
    return made


def guarded(template: torch.Tensor, run: int = 0, shift: int = 0) -> Guarded:
    """A poisoned tensor of ``template``'s shape, strides, dtype and device, between guard bands of 8 KiB to 1 MiB.

    Within these limits the bands are as long as the tensor, so that an extra row or block is written into them.
    ``shift`` is the offset of the first element, in elements, from an address that is aligned to 512 bytes.
    """
    size = template.element_size()
    extent = extent_bytes(template)
    guard = -(-min(max(extent, SMALLEST_GUARD), LARGEST_GUARD) // ALIGNMENT) * ALIGNMENT
    pattern = poison(template.dtype, run)
    total = -(-(2 * guard + extent + shift * size) // size) * size
    buffer = torch.full((total,), pattern, dtype=torch.uint8, device=template.device)
    view = buffer.view(template.dtype).as_strided(template.shape, template.stride(), guard // size + shift)
    return Guarded(view, buffer, pattern)


UNINITIALISED = {
    torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted, torch.Tensor.new_empty,
    torch.Tensor.new_empty_strided,
}  # fmt: skip


class PoisonedWorkspaces(TorchFunctionMode):
    """Fills each tensor that is allocated without values, as by ``torch.empty``, with NaN or a pattern.

    New memory is often zero by chance, with which a kernel that does not initialise it gives the right result. This NaN
    differs from the one of outputs, so an output computed from it is not taken for one that was never written. ``used``
    is true once a tensor was filled.
    """

    def __init__(self, run: int) -> None:
        super().__init__()
        self.run, self.used = run, False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in UNINITIALISED and made.numel() and not made.is_meta and not made.is_quantized:
            memory = storage_bytes(made)
            if made.dtype.is_floating_point or made.dtype.is_complex:
                memory.view(made.dtype).fill_(torch.nan)
            else:
                memory.fill_(poison(made.dtype, self.run))
            self.used = True
        return made


def storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage of ``tensor``, gaps included, as a uint8 tensor that shares its memory."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


@dataclass(frozen=True)
class Snapshot:
    """Copies of the storages of the inputs."""

    live: tuple[tuple[int, torch.Tensor], ...]
    saved: tuple[torch.Tensor, ...]

    def changed(self) -> tuple[int, int] | None:
        """Return the position of the first argument that changed and the offset of the byte in its storage, or None."""
        for (position, now), before in zip(self.live, self.saved, strict=True):
            if not torch.equal(now, before):
                return position, int((now != before).nonzero()[0])
        return None

    def restore(self) -> None:
        """Copy the saved bytes back."""
        for (_, now), before in zip(self.live, self.saved, strict=True):
            now.copy_(before)

    @property
    def nbytes(self) -> int:
        return sum(saved.numel() for saved in self.saved)


def snapshot(args: tuple[object, ...]) -> Snapshot:
    """Copy the storage of each tensor in ``args``, also of those in lists."""
    live = tuple((position, storage_bytes(tensor)) for position, value in enumerate(args) for tensor in tensors(value))
    return Snapshot(live, tuple(view.clone() for _, view in live))
