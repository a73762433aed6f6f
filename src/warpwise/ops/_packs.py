"""Grids of kernels in which a thread computes 16 bytes."""

from __future__ import annotations

BYTES = 16  # of a pack
LARGE = 3 << 19  # bytes of an array from which a kernel with one input takes one pack per thread, 1.5 MB
PACK_BLOCK = 128  # threads: one wave of blocks is divided between the SMs more evenly than with 256


def pack_blocks(count: int, itemsize: int, bytes: int = BYTES, block: int = PACK_BLOCK) -> int:
    """Blocks with a thread for each whole pack of ``count`` elements and one for each element after the last pack."""
    packs, rest = divmod(count, max(1, bytes // itemsize))
    return -(-(packs + rest) // block)  # rounded up


def elementwise_blocks(count: int, itemsize: int) -> int:
    """Blocks of ``core/elementwise.cuh``, each of PACK_BLOCK packs."""
    return -(-count // (BYTES // itemsize * PACK_BLOCK))  # rounded up


def one_input_blocks(count: int, itemsize: int) -> tuple[int, str]:
    """The blocks of a kernel with one input, and its template argument LARGE."""
    if count * itemsize < LARGE:
        return elementwise_blocks(count, itemsize), "false"
    packs, rest = divmod(count, max(1, BYTES // itemsize))
    return -(-(-(-packs // 32) * 32 + rest) // PACK_BLOCK), "true"
