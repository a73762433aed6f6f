"""The teams of kernels of core/staged_rows.cuh."""

from __future__ import annotations

from typing import NamedTuple

from warpwise.operation import cdiv

WARP, WARPS = 32, 4  # lanes of a warp; warps of a block
PACK = 16  # bytes
VALUES = 16  # elements of a lane, at most


class Team(NamedTuple):
    """``lanes`` of a row, with ``values`` elements each."""

    lanes: int
    values: int

    def grid(self, rows: int) -> int:
        return cdiv(rows, WARPS * (WARP // self.lanes))


def most_columns(itemsize: int) -> int:
    """The longest row: a warp has at least as many rows as a pack has elements, so that its rows are whole packs."""
    return WARP * itemsize // PACK * VALUES


def team(columns: int, itemsize: int, most: int = VALUES) -> Team:
    """The fewest lanes with up to ``most`` elements each, or the most lanes that a row may have with more elements."""
    lanes, lanes_at_most = 1, WARP * itemsize // PACK
    while lanes * most < columns and lanes < lanes_at_most:
        lanes *= 2
    values = PACK // itemsize
    while lanes * values < columns:
        values *= 2
    return Team(lanes, values)
