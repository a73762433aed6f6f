"""Grids of kernels in which a thread computes 16 bytes; the elements after the last 16 bytes take a thread each."""

from __future__ import annotations

BYTES = 16  # of a pack
PACK_BLOCK = 128  # threads: one wave of blocks is divided between the SMs more evenly than with 256


def pack_blocks(count: int, itemsize: int, bytes: int = BYTES, block: int = PACK_BLOCK) -> int:
    """Blocks with a thread for each whole pack of ``count`` elements and one for each element after the last."""
    packs, rest = divmod(count, max(1, bytes // itemsize))
    return -(-(packs + rest) // block)  # rounded up
