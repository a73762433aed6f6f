"""Blocks of points of one restart in Triton: scores and moments by tl.dot, neighbours by gathered rows of q.

A colour is one launch, as in k02, and a program loops over blocks of points: the coefficients stay in registers, a
block's features are read once for scores and moments, and the moments are added to partial sums of the program. The
loop over neighbours ends at the largest number of neighbours in a block. A last launch adds the partial sums.
"""

import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.operation import cdiv, sm_count

TILE = 2048  # points of a block times domains or features, whichever are more
MOST_POINTS = 64  # points of a block
PROGRAMS_PER_SM = 4


@wt.jit
def softmax_rows(logits, known):
    """The softmax over the columns that are `known`, and 0 in the others."""
    powers = tl.where(known, tl.exp(logits - tl.max(tl.where(known, logits, float("-inf")), axis=1)[:, None]), 0.0)
    return powers / tl.sum(powers, axis=1)[:, None]


@wt.jit
def em_step(
    q_ptr, features_ptr, linear_ptr, constant_ptr, rowptr_ptr, columns_ptr, weights_ptr, beta_ptr, external_ptr,
    interaction_ptr, partials_ptr, near_ptr, begin, end, near_begin, written, restarts, domains, width, external_row,
    external_restart, temper, DERIVATIVES: tl.constexpr, POINTS: tl.constexpr, DOMAINS: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """q: (n, restarts, domains), whose rows begin to end are replaced; features: (n, width), or, with linear None, the
    scores (n, restarts, domains); linear: (restarts, domains, width). partials: (programs, restarts, domains width +
    domains + 2), sums of q x, of q and derivatives; earlier colours have written those of `written` programs. near:
    from near_begin on, or None. DOMAINS >= domains, WIDTH >= width. Grid: (programs, restarts).
    """
    program, restart, domain, column = tl.program_id(0), tl.program_id(1), tl.arange(0, DOMAINS), tl.arange(0, WIDTH)
    known = (domain < domains)[None, :]
    coefficients = tl.zeros((WIDTH, DOMAINS), tl.float32)
    constant = tl.zeros((DOMAINS,), tl.float32)
    if linear_ptr is not None:
        elements = linear_ptr + (restart * domains + domain)[None, :] * width + column[:, None]
        coefficients = tl.load(elements, mask=(column < width)[:, None] & known, other=0.0)
        constant = tl.load(constant_ptr + restart * domains + domain, mask=domain < domains, other=0.0)
    if interaction_ptr is not None:
        both = (domain < domains)[:, None] & known
        between = tl.load(interaction_ptr + domain[:, None] * domains + domain[None, :], mask=both, other=0.0)
    beta = tl.load(beta_ptr + restart)
    sums, counts = tl.zeros((DOMAINS, WIDTH), tl.float32), tl.zeros((DOMAINS,), tl.float32)
    first, second = tl.zeros((POINTS,), tl.float32), tl.zeros((POINTS,), tl.float32)

    for start in range(begin + program * POINTS, end, tl.num_programs(0) * POINTS):
        i = (start + tl.arange(0, POINTS)).to(tl.int64)
        inside = (i < end)[:, None] & known
        own = (i[:, None] * restarts + restart) * domains + domain[None, :]
        edges = tl.load(rowptr_ptr + i, mask=i < end, other=0)
        degree = tl.load(rowptr_ptr + i + 1, mask=i < end, other=0) - edges
        near = tl.zeros((POINTS, DOMAINS), tl.float32)
        for edge in range(tl.max(degree, axis=0)):
            j = tl.load(columns_ptr + edges + edge, mask=edge < degree, other=0).to(tl.int64)
            rows = q_ptr + (j[:, None] * restarts + restart) * domains + domain[None, :]
            row = tl.load(rows, mask=(edge < degree)[:, None] & known, other=0.0)
            if weights_ptr is not None:
                row *= tl.load(weights_ptr + edges + edge, mask=edge < degree, other=0.0)[:, None]
            near += row
        if interaction_ptr is not None:
            near = tl.dot(near, between, input_precision="ieee")
        if near_ptr is not None:
            tl.store(near_ptr + own - near_begin.to(tl.int64) * restarts * domains, near, mask=inside)
        field = (external_ptr + i * external_row + restart * external_restart)[:, None] + domain[None, :]
        prior = beta * near + tl.load(field, mask=inside, other=0.0)
        if linear_ptr is None:
            q = softmax_rows(temper * tl.load(features_ptr + own, mask=inside, other=0.0) + prior, known)
        else:
            taken = (i < end)[:, None] & (column < width)[None, :]
            x = tl.load(features_ptr + i[:, None] * width + column[None, :], mask=taken, other=0.0)
            scores = tl.dot(x, coefficients, input_precision="ieee") + constant[None, :]
            q = softmax_rows(temper * scores + prior, known)
            counted = tl.where(inside, q, 0.0)
            counts += tl.sum(counted, axis=0)
            sums = tl.dot(tl.trans(counted), x, sums, input_precision="ieee")
        tl.store(q_ptr + own, q, mask=inside)
        if DERIVATIVES:
            p = softmax_rows(prior, known)
            mean = tl.sum(p * near, axis=1)
            away = tl.where(known, near - mean[:, None], 0.0)
            first += tl.where(i < end, tl.sum((q - p) * near, axis=1), 0.0)
            second += tl.where(i < end, tl.sum(p * away * away, axis=1), 0.0)

    partials_ptr += (program.to(tl.int64) * restarts + restart) * (domains * width + domains + 2)
    of_counts, of_slopes = partials_ptr + domains * width + domain, partials_ptr + domains * width + domains
    of_sums = partials_ptr + domain[:, None] * width + column[None, :]
    held = (domain < domains)[:, None] & (column < width)[None, :]
    earlier = program < written
    tl.store(of_sums, sums + tl.load(of_sums, mask=held & earlier, other=0.0), mask=held)
    tl.store(
        of_counts, counts + tl.load(of_counts, mask=(domain < domains) & earlier, other=0.0), mask=domain < domains
    )
    tl.store(of_slopes, tl.sum(first, axis=0) + tl.load(of_slopes, mask=earlier, other=0.0))
    tl.store(of_slopes + 1, tl.sum(second, axis=0) + tl.load(of_slopes + 1, mask=earlier, other=0.0))


@wt.jit
def add_partials(
    partials_ptr, sums_ptr, counts_ptr, derivatives_ptr, programs, restarts, moments, domains,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """sums: (restarts, moments), counts: (restarts, domains), derivatives: (2, restarts); each may be None.

    Grid: (cdiv(moments + domains + 2, BLOCK), restarts) programs.
    """
    at, restart, size = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1), moments + domains + 2
    totals = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(0, programs, ROWS):
        row = first + tl.arange(0, ROWS)
        offsets = (row.to(tl.int64) * restarts + restart)[:, None] * size + at[None, :]
        totals += tl.load(partials_ptr + offsets, mask=(row < programs)[:, None] & (at < size)[None, :], other=0.0)
    total = tl.sum(totals, axis=0)
    if sums_ptr is not None:
        tl.store(sums_ptr + restart.to(tl.int64) * moments + at, total, mask=at < moments)
        tl.store(counts_ptr + restart * domains + at - moments, total, mask=(at >= moments) & (at < size - 2))
    if derivatives_ptr is not None:
        tl.store(derivatives_ptr + (at - size + 2) * restarts + restart, total, mask=(at >= size - 2) & (at < size))


def launch(
    outputs: tuple[torch.Tensor | None, ...],
    tensors: tuple[torch.Tensor | None, ...],
    colours: list[tuple[int, int]],
    strides: tuple[int, int],
    sizes: tuple[int, int, int],
    padded: tuple[int, int],
    temper: float,
) -> None:
    """``tensors``: the operation's q to interaction; ``sizes``: restarts, domains and features, or 0 for scores;
    ``padded``: powers of two of the last two, at least 16 for tl.dot.
    """
    (counts, sums, derivatives, near), (restarts, domains, width) = outputs, sizes
    across, along = padded
    points = min(MOST_POINTS, max(16, TILE // max(across, along)))
    warps = 4 if across * along <= 4096 else 8
    q = tensors[0]
    assert q is not None
    resident = cdiv(PROGRAMS_PER_SM * sm_count(q), restarts)
    grids = [min(cdiv(end - begin, points), resident) for begin, end in colours]
    partials, written = q.new_empty((max(grids), restarts, domains * width + domains + 2)), 0
    for (begin, end), grid in zip(colours, grids, strict=True):
        em_step[(grid, restarts)](
            *(*tensors, partials, near, begin, end, colours[0][0], written, *sizes, *strides, temper),
            DERIVATIVES=derivatives is not None, POINTS=points, DOMAINS=across, WIDTH=along, num_warps=warps,
        )  # fmt: skip
        written = max(written, grid)
    if sums is not None or derivatives is not None:
        add_partials[(cdiv(domains * width + domains + 2, 32), restarts)](
            *(partials, sums, counts, derivatives, max(grids), restarts, domains * width, domains), ROWS=32, BLOCK=32
        )
