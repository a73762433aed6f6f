"""Device functions that find a tile's group from the ends in memory: the grid does not depend on the groups' sizes."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def heights(ends_ptr, groups, rows, BLOCK_M: tl.constexpr, GROUPS: tl.constexpr):
    """Of each group where it starts and ends, how many tiles of BLOCK_M rows it has, and how many are before them.

    All are (GROUPS,), a power of two above ``groups``. What lies past the last end is one more group, number
    ``groups``. An end beyond ``rows`` counts as ``rows``, so that wrong ends never lead out of the tensors.
    """
    index = tl.arange(0, GROUPS)
    ends = tl.load(ends_ptr + index, mask=index < groups, other=0)
    starts = tl.load(ends_ptr + index - 1, mask=(index > 0) & (index <= groups), other=0)
    ends = tl.where(index < groups, tl.minimum(tl.maximum(ends, 0), rows), tl.where(index == groups, rows, 0))
    starts = tl.minimum(tl.maximum(starts, 0), rows)
    tiles = tl.cdiv(tl.maximum(ends - starts, 0), BLOCK_M)
    return starts, ends, tiles, tl.cumsum(tiles) - tiles


@wt.jit
def at(mine, values):
    """The one of ``values`` that ``mine`` marks; 0 if it marks none."""
    return tl.sum(tl.where(mine, values, 0))
