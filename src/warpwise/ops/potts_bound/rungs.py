"""The ladder of potts_bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.potts_bound.spec import DTYPES, SPEC
from warpwise.ops.potts_em_step.launches import in_rows
from warpwise.ops.potts_em_step.spec import rows_of

HERE = Path(__file__).parent
THREADS = 256  # kThreads of k01
BLOCKS_AN_SM = 8
MOST_DOMAINS, MOST_INDEX, MOST_RESTARTS = 128, 2**31 - 1, 65535

LANES_PER_POINT = cuda.load(HERE / "k01_lanes_per_point.cu")


def lanes_per_point(
    bound: torch.Tensor, q: torch.Tensor, rowptr: torch.Tensor, columns: torch.Tensor, weights: torch.Tensor | None,
    beta: torch.Tensor, external: torch.Tensor, interaction: torch.Tensor | None, points: int,
) -> None:  # fmt: skip
    restarts, domains = q.shape[1:]
    rows = rows_of(q)
    assert rows is not None  # in_rows
    if not points or not restarts:
        bound.zero_()
        return
    lanes = 1 << (cdiv(domains, 4) - 1).bit_length()
    blocks = min(cdiv(BLOCKS_AN_SM * sm_count(q), restarts), cdiv(points, THREADS // lanes))
    partials = q.new_empty((blocks, restarts), dtype=torch.float64)
    column = domains if external.shape[1] > 1 else 0
    launch = LANES_PER_POINT[f"potts_bound_lanes_per_point<{cuda.ctype(q.dtype)}>"][(blocks, restarts), THREADS]
    row = (external.shape[1] * domains) if len(external) > 1 else 0
    launch(rows, rowptr, columns, weights, beta, external, interaction, cuda.out(partials), points, restarts, domains,
           rows.shape[2], row, column, lanes)  # fmt: skip
    LANES_PER_POINT["potts_bound_add_partials"][restarts, 32](partials, cuda.out(bound), blocks, restarts)


def limits(q: torch.Tensor, rowptr: torch.Tensor, columns: torch.Tensor, *rest: Any) -> str | None:
    if rowptr.dtype != torch.int32 or columns.dtype != torch.int32:
        return f"takes a graph of int32, not {columns.dtype}"
    if q.shape[2] > MOST_DOMAINS or q.shape[1] > MOST_RESTARTS or len(q) > MOST_INDEX:
        return f"takes up to {MOST_DOMAINS} domains and {MOST_RESTARTS} restarts, not {q.shape[2]} and {q.shape[1]}"
    return None


RUNGS = (
    make_rung(HERE, "k01_lanes_per_point", "a team of lanes per point, no intermediate array",
              in_rows(lanes_per_point, writes=False), dtypes=DTYPES, limits=limits, strided=True),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k01 where it fits: PyTorch makes several passes over arrays of the size of q."""
    return first_taking(SPEC, RUNGS, args, "k01_lanes_per_point")
