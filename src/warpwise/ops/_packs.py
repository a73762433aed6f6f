"""Grids of kernels in which a thread computes 16 bytes."""

from __future__ import annotations

BYTES = 16  # of a pack
PACK_BLOCK = 256  # threads, kElementwiseBlock of core/elementwise.cuh


def pack_blocks(count: int, itemsize: int, bytes: int = BYTES, block: int = PACK_BLOCK) -> int:
    """Blocks with a thread for each whole pack of ``count`` elements and one for each element after the last pack."""
    packs, rest = divmod(count, max(1, bytes // itemsize))
    return -(-(packs + rest) // block)  # rounded up


def elementwise_blocks(count: int, itemsize: int) -> int:
    """Blocks of ``core/elementwise.cuh``, each of PACK_BLOCK packs."""
    return -(-count // (BYTES // itemsize * PACK_BLOCK))  # rounded up
