"""A tile of points and features per program in Triton: one loop over the edges of all points of the tile.

The loop ends at the largest number of neighbours in the tile; points with fewer are masked. The column indices of a
step are gathered once for all features of the tile.
"""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def smooth(
    values_ptr,
    rowptr_ptr,
    columns_ptr,
    weights_ptr,
    scale_ptr,
    out_ptr,
    n,
    width,
    POINTS: tl.constexpr,
    FEATURES: tl.constexpr,
):
    """values, out: (n, width); rowptr: (n + 1), columns, weights: (edges), weights may be None; scale: (n).

    Grid: (cdiv(n, POINTS), cdiv(width, FEATURES)) programs.
    """
    points = tl.program_id(0).to(tl.int64) * POINTS + tl.arange(0, POINTS)
    features = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    begin = tl.load(rowptr_ptr + points, mask=points < n, other=0)
    degree = tl.load(rowptr_ptr + points + 1, mask=points < n, other=0) - begin
    inside = (points < n)[:, None] & (features < width)[None, :]
    sums = tl.load(values_ptr + points[:, None] * width + features[None, :], mask=inside, other=0.0)
    for edge in range(tl.max(degree, axis=0)):
        near = tl.load(columns_ptr + begin + edge, mask=edge < degree, other=0).to(tl.int64)
        taken = (edge < degree)[:, None] & (features < width)[None, :]
        value = tl.load(values_ptr + near[:, None] * width + features[None, :], mask=taken, other=0.0)
        if weights_ptr is not None:
            value *= tl.load(weights_ptr + begin + edge, mask=edge < degree, other=0.0)[:, None]
        sums += value
    scale = tl.load(scale_ptr + points, mask=points < n, other=0.0)
    tl.store(out_ptr + points[:, None] * width + features[None, :], sums * scale[:, None], mask=inside)
