"""Tiles of k10, in which eight adjacent lanes load a row of q."""

from __future__ import annotations

from typing import NamedTuple

from warpwise.operation import cdiv
from warpwise.ops.potts_em_step.selection_tiles import Row, SelectionChoice, selection_tile
from warpwise.ops.potts_em_step.tiles import MOST_DOMAINS

WARPS = 8
FLIGHT = 8  # rows in flight of a lane
MOST_KEPT = 12  # tiles of 16 domains x 8 features of the moments that a warp keeps in registers


class EightTile(NamedTuple):
    """k10: ``warps`` of a block of 16 points each, ``tiles`` of 16 domains, an even number, ``steps`` of 16 features,
    tiles of ``features`` of the moments, rows in ``flight``. A warp ``keeps`` moments in registers. Bytes of shared
    memory of a block, and sums of a lane."""

    warps: int
    tiles: int
    steps: int
    features: int
    flight: int
    keeps: bool
    bytes: int
    slots: int


def eight_tile_of(domains: int, words: int) -> EightTile | None:
    """``words``: of four bytes in a row of features. None if the moments of the warps do not fit in shared memory."""
    if not 1 <= domains <= MOST_DOMAINS or words < 1:
        return None
    tiles = 2 * cdiv(domains, 32)
    tile = selection_tile(16 * tiles, Row(words, 2), SelectionChoice(WARPS, 1, 2, FLIGHT, own=True), True)
    if tile is None:
        return None
    keeps = tiles * tile.features <= MOST_KEPT
    return EightTile(WARPS, tiles, tile.steps, tile.features, FLIGHT, keeps, tile.bytes, tile.slots)
