"""Tiles of k08, in which a lane has all domains of a point."""

from __future__ import annotations

from typing import NamedTuple

from warpwise.device.limits import RESERVED, SM_SHARED
from warpwise.operation import cdiv

WARPS = 4  # of a block
# (vectors, blocks): the resident blocks per SM, by measurement, for up to so many vectors of eight features.
BLOCKS = (8, 4), (16, 3)
MOST_VECTORS = BLOCKS[-1][0]


class LaneTile(NamedTuple):
    """k08: ``warps`` of a block, resident ``blocks`` per SM, ``vectors`` of eight features, ``own`` domains of a row,
    bytes of shared memory of a block, and sums of a lane."""

    warps: int
    blocks: int
    vectors: int
    own: int
    bytes: int
    slots: int


def lane_tile_of(domains: int, words: int) -> LaneTile | None:
    """``words``: of four bytes in a row of features. None if there are more than eight domains, or more features than
    registers or shared memory hold."""
    vectors = cdiv(words, 4)
    if not 1 <= domains <= 8 or not 1 <= vectors <= MOST_VECTORS:
        return None
    steps, points = cdiv(vectors, 2), 32 * WARPS
    slots = 4 * steps + 4
    size = 4 * max(128 * steps + 16 + points * (8 + 2 * (4 * vectors + 8)), 32 * WARPS * slots)
    most = next(blocks for up_to, blocks in BLOCKS if vectors <= up_to)
    blocks = min(most, SM_SHARED // (size + RESERVED))
    return LaneTile(WARPS, blocks, vectors, 4 if domains <= 4 else 8, size, slots) if blocks else None
