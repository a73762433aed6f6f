"""The ladder of potts_bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.device.limits import requires_ampere
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.potts_bound.spec import DTYPES, SPEC
from warpwise.ops.potts_em_step.launches import in_rows, load_of
from warpwise.ops.potts_em_step.spec import rows_of

HERE = Path(__file__).parent
THREADS = 256  # kThreads
BLOCKS_AN_SM, RESIDENT = 8, 2  # of k01; of k02, all resident
MOST_DOMAINS, MOST_INDEX, MOST_RESTARTS = 128, 2**31 - 1, 65535

LANES_PER_POINT = cuda.load(HERE / "k01_lanes_per_point.cu")
INTEGER_CONVERSION = cuda.load(HERE / "k02_integer_conversion.cu")


def lanes_per_point(bound: torch.Tensor, q: torch.Tensor, *rest: Any) -> None:
    _launch(LANES_PER_POINT, f"potts_bound_lanes_per_point<{cuda.ctype(q.dtype)}>", 4, BLOCKS_AN_SM, bound, q, *rest)


def integer_conversion(bound: torch.Tensor, q: torch.Tensor, *rest: Any) -> None:
    own = _own(q)
    kernel = f"potts_bound_integer_conversion<{own}, {str(len(rest[4]) > 1).lower()}>"
    _launch(INTEGER_CONVERSION, kernel, own, RESIDENT, bound, q, *rest)


def _own(q: torch.Tensor) -> int:
    """The domains of a lane of k02."""
    return 4 if q.shape[2] <= 4 else 8


def _launch(
    module: cuda.Module, kernel: str, own: int, blocks_an_sm: int,
    bound: torch.Tensor, q: torch.Tensor, rowptr: torch.Tensor, columns: torch.Tensor, weights: torch.Tensor | None,
    beta: torch.Tensor, external: torch.Tensor, interaction: torch.Tensor | None, points: int,
) -> None:  # fmt: skip
    """The launch of k01, which takes ``interaction``, and of k02. A lane has ``own`` domains; there are up to
    ``blocks_an_sm`` blocks for each SM."""
    restarts, domains = q.shape[1:]
    rows = rows_of(q)
    assert rows is not None  # in_rows
    if not points or not restarts:
        bound.zero_()
        return
    lanes = 1 << (cdiv(domains, own) - 1).bit_length()
    blocks = min(cdiv(blocks_an_sm * sm_count(q), restarts), cdiv(points, THREADS // lanes))
    partials = q.new_empty((blocks, restarts), dtype=torch.float64)
    column = domains if external.shape[1] > 1 else 0
    row = (external.shape[1] * domains) if len(external) > 1 else 0
    more = (interaction,) if module is LANES_PER_POINT else ()
    module[kernel][(blocks, restarts), THREADS](
        rows, rowptr, columns, weights, beta, external, *more, cuda.out(partials), points, restarts, domains,
        rows.shape[2], row, column, lanes
    )  # fmt: skip
    LANES_PER_POINT["potts_bound_add_partials"][restarts, 32](partials, cuda.out(bound), blocks, restarts)


def limits(q: torch.Tensor, rowptr: torch.Tensor, columns: torch.Tensor, *rest: Any) -> str | None:
    if rowptr.dtype != torch.int32 or columns.dtype != torch.int32:
        return f"takes a graph of int32, not {columns.dtype}"
    if q.shape[2] > MOST_DOMAINS or q.shape[1] > MOST_RESTARTS or len(q) > MOST_INDEX:
        return f"takes up to {MOST_DOMAINS} domains and {MOST_RESTARTS} restarts, not {q.shape[2]} and {q.shape[1]}"
    return None


def conversion_limits(q: torch.Tensor, *rest: Any) -> str | None:
    if q.dtype != torch.bfloat16 or rest[5] is not None:
        return "takes q in bfloat16 and no interaction"
    rows = rows_of(q)
    if rows is None or load_of(rows) < _own(q):
        return f"takes rows of q aligned to {2 * _own(q)} bytes"
    return requires_ampere(q) or limits(q, *rest)


RUNGS = (
    make_rung(HERE, "k01_lanes_per_point", "a team of lanes per point, no intermediate array",
              in_rows(lanes_per_point, writes=False), dtypes=DTYPES, limits=limits, strided=True),
    make_rung(HERE, "k02_integer_conversion", "q in bfloat16: integer instructions convert it, logarithms from a table",
              in_rows(integer_conversion, writes=False), dtypes=DTYPES, limits=conversion_limits, strided=True),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k02 for q in bfloat16, else k01: PyTorch makes several passes over arrays of the size of q."""
    return first_taking(SPEC, RUNGS, args, "k02_integer_conversion", "k01_lanes_per_point")
