"""A block of points per program in Triton: one loop over the edges of all its points, and a scan over the domains."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def sweep(
    scores_ptr,
    draws_ptr,
    labels_ptr,
    visits_ptr,
    rowptr_ptr,
    columns_ptr,
    weights_ptr,
    beta_ptr,
    interaction_ptr,
    begin,
    end,
    domains,
    POINTS: tl.constexpr,
    DOMAINS: tl.constexpr,
):
    """The arguments of gibbs_thread_per_point (k01). DOMAINS: a power of two, at least domains.
    Grid: cdiv(end - begin, POINTS) programs."""
    points = (begin + tl.program_id(0) * POINTS + tl.arange(0, POINTS)).to(tl.int64)
    own = tl.arange(0, DOMAINS)
    first = tl.load(rowptr_ptr + points, mask=points < end, other=0)
    degree = tl.load(rowptr_ptr + points + 1, mask=points < end, other=0) - first
    exists = (points < end)[:, None] & (own < domains)[None, :]
    near = tl.zeros((POINTS, DOMAINS), tl.float32)
    for edge in range(tl.max(degree, axis=0)):
        there = edge < degree
        neighbour = tl.load(columns_ptr + first + edge, mask=there, other=0)
        label = tl.load(labels_ptr + neighbour, mask=there, other=-1)
        if interaction_ptr is not None:
            pair = there[:, None] & (own < domains)[None, :]
            value = tl.load(interaction_ptr + label[:, None] * domains + own[None, :], mask=pair, other=0.0)
        else:
            value = (label[:, None] == own[None, :]).to(tl.float32)
        if weights_ptr is not None:
            value *= tl.load(weights_ptr + first + edge, mask=there, other=0.0)[:, None]
        near += value
    scores = tl.load(scores_ptr + points[:, None] * domains + own[None, :], mask=exists, other=float("-inf"))
    logits = tl.where(exists, scores + tl.load(beta_ptr) * near, float("-inf"))
    highest = tl.max(logits, axis=1)
    powers = tl.where(exists, tl.exp(logits - tl.where(points < end, highest, 0.0)[:, None]), 0.0)
    ends = tl.cumsum(powers, axis=1)
    target = tl.load(draws_ptr + points, mask=points < end, other=0.0) * tl.max(ends, axis=1)
    passed = (own < domains)[None, :] & (ends <= target[:, None])
    chosen = tl.minimum(tl.sum(passed.to(tl.int32), axis=1), domains - 1)
    tl.store(labels_ptr + points, chosen, mask=points < end)
    if visits_ptr is not None:
        place = visits_ptr + points * domains + chosen
        tl.store(place, tl.load(place, mask=points < end, other=0) + 1, mask=points < end)
