"""Device functions that find a tile's group from the ends in memory: the grid does not depend on the groups' sizes."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def heights(ends_ptr, groups, rows, BLOCK_M: tl.constexpr, GROUPS: tl.constexpr):
    """For each group its first row, its end, its number of tiles of BLOCK_M rows, and the number of tiles before it.

    All are (GROUPS,), a power of two above ``groups``. The rows past the last end are one more group, number
    ``groups``. An end beyond ``rows`` is replaced by ``rows``, so that wrong ends cause no access out of bounds.
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
    """The element of ``values`` at which ``mine`` is true; 0 if it is nowhere true."""
    return tl.sum(tl.where(mine, values, 0))
