"""Tiles of k09, in which warpgroups multiply by wgmma."""

from __future__ import annotations

from typing import NamedTuple

from warpwise.device.limits import HOPPER_SHARED
from warpwise.operation import cdiv
from warpwise.ops.potts_em_step.tiles import MOST_DOMAINS

MOST_VECTORS = 16  # of eight features: two accumulators of 64 rows
# (tiles, updaters, flight): up to so many tiles of 16 domains, the warpgroups that update points, and the edges in
# flight of a warp. Registers limit both; shared memory may hold fewer updaters.
CHOICES = (2, 3, 8), (3, 3, 6), (4, 3, 4), (6, 2, 5), (8, 2, 4)


class WarpgroupTile(NamedTuple):
    """k09: ``updaters``, the warpgroups of a block that update points, beside one for the moments; ``vectors`` of eight
    features, ``tiles`` of 16 domains, edges in ``flight``. Bytes of shared memory of a block, and sums of 32 lanes."""

    updaters: int
    vectors: int
    tiles: int
    flight: int
    bytes: int
    slots: int


def warpgroup_tile_of(domains: int, words: int) -> WarpgroupTile | None:
    """``words``: of four bytes in a row of features. None for more domains or features than ``MOST_DOMAINS`` and
    ``MOST_VECTORS``."""
    tiles, vectors = cdiv(domains, 16), cdiv(words, 4)
    if not 1 <= domains <= MOST_DOMAINS or not 1 <= vectors <= MOST_VECTORS:
        return None
    _, most, flight = next(choice for choice in CHOICES if tiles <= choice[0])
    units = cdiv(vectors, 8)  # of 64 features
    moments = 32 * tiles * units + cdiv(tiles, 2)

    def bytes_of(updaters: int) -> int:
        points = 64 * updaters
        floats = (
            points * (2 * 32 * units + 32 * cdiv(tiles, 4) + 2 * 8)  # features and edges of two tiles, q of one
            + 2 * 16 * tiles * 32 * units  # both parts of the coefficients
            + 32 * moments
            + 2 * 16 * tiles  # offsets and fields
            + 64 * 4 * (updaters + 1)  # derivatives of each warp
            + 4 * updaters  # mbarriers
        )
        return 4 * floats

    updaters = next(count for count in range(most, 0, -1) if bytes_of(count) <= HOPPER_SHARED)
    return WarpgroupTile(updaters, vectors, tiles, flight, bytes_of(updaters), moments + 2)
