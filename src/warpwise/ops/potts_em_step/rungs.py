"""The ladder of potts_em_step, slowest idea first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from warpwise.device.limits import requires_hopper
from warpwise.operation import cdiv, make_rung
from warpwise.ops._defaults import first_taking
from warpwise.ops.potts_em_step import launches
from warpwise.ops.potts_em_step.eight_tiles import WARPS as EIGHT_WARPS
from warpwise.ops.potts_em_step.eight_tiles import eight_tile_of
from warpwise.ops.potts_em_step.lane_tiles import MOST_VECTORS, lane_tile_of
from warpwise.ops.potts_em_step.launches import HERE, MOST_COLOURS, padded
from warpwise.ops.potts_em_step.reference import domains_of
from warpwise.ops.potts_em_step.selection_tiles import Row, selection_tile_of
from warpwise.ops.potts_em_step.spec import DTYPES, SPEC, pitch_for, rows_of
from warpwise.ops.potts_em_step.tiles import (
    MOST_DOMAINS,
    MOST_SUMS,
    MOST_TILES,
    SHARED_OF_ONE,
    THREADS,
    Shape,
    fragment_tile_of,
    gather_tile_of,
    gathers,
    shape_of,
    tile_of,
    warp_tile_of,
)
from warpwise.ops.potts_em_step.warpgroup_tiles import MOST_VECTORS as MOST_OF_WARPGROUP
from warpwise.ops.potts_em_step.warpgroup_tiles import warpgroup_tile_of

MOST_INDEX = 2**31 - 1
MOST_RESIDENT = 64  # restarts: their blocks are resident at the same time
TRITON_SUMS = 16384  # of k05: domains x domains and domains x features in the registers of 128 threads


def float32_fits(takes: Callable[..., str | None], only_features: bool) -> Callable[..., str | None]:
    """``takes`` of a rung that has no features in bfloat16 and, unless ``only_features``, no q in bfloat16."""

    def fits(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
        for name, given in (("features", features),) if only_features else (("q", q), ("features", features)):
            if given.dtype == torch.bfloat16:
                return f"takes {name} of {torch.float32}, not {given.dtype}"
        return takes(q, features, *rest)

    return fits


def without_columns_of_zeros(takes: Callable[..., str | None]) -> Callable[..., str | None]:
    def fits(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
        domains = domains_of(features, rest[0])
        if q.shape[2] != domains:
            return f"takes q of {domains} columns, one per domain, not {q.shape[2]}"
        return takes(q, features, *rest)

    return fits


def limits(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    rowptr, columns = rest[2:4]
    if rowptr.dtype != torch.int32 or columns.dtype != torch.int32:
        return f"takes a graph of int32, not {columns.dtype}"
    return index_fits(len(q), q.shape[1])


def index_fits(points: int, restarts: int) -> str | None:
    most = f"takes up to {MOST_INDEX} points times restarts"
    return f"{most}, not {points * restarts}" if points * restarts > MOST_INDEX else None


def tiles_fit(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    shape = shape_of(q, features, rest[0])
    if tile_of(shape.domains, shape.width) is None:
        return (
            f"takes up to {MOST_DOMAINS} domains, {16 * THREADS * MOST_TILES} of domains times features, and 32 points "
            f"in {SHARED_OF_ONE} bytes of shared memory, not {shape.domains} x {shape.width}"
        )
    if shape.restarts > 65535:
        return f"takes up to 65535 restarts, not {shape.restarts}"
    return limits(q, features, *rest)


def one_launch_fits(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    shape = shape_of(q, features, rest[0])
    if rest[0] is not None and warp_tile_of(shape.domains, shape.width, q.dtype) is None:
        return (
            f"takes up to 8 domains, and {16 * MOST_SUMS} features in {SHARED_OF_ONE} bytes of shared memory, not"
            f" {shape.domains} x {shape.width}"
        )
    return cooperates(q, features, *rest)


def in_fragments_fits(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    shape = shape_of(q, features, rest[0])
    if rest[0] is not None and fragment_tile_of(shape.domains, shape.width) is None:
        return (
            f"takes up to {MOST_DOMAINS} domains, about 128 features, and a tile of points in {SHARED_OF_ONE} bytes of"
            f" shared memory, not {shape.domains} x {shape.width}"
        )
    return cooperates(q, features, *rest)


def gather_warps_fit(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    shape = shape_of(q, features, rest[0])
    if rest[0] is not None and gather_tile_of(shape.domains, shape.width) is None:
        return (
            f"takes up to {MOST_DOMAINS} domains, and tiles of points in {SHARED_OF_ONE} bytes of shared memory, not"
            f" {shape.domains} x {shape.width}"
        )
    return requires_hopper(q, "older GPUs have no instruction that waits for an mbarrier's phase") or cooperates(
        q, features, *rest
    )


def q_in_rows(q: torch.Tensor, vector: int = 8) -> str | None:
    """The limit of q of k07 to k10: ``vector`` elements of bfloat16 are one load."""
    rows = rows_of(q) if q.dtype == torch.bfloat16 else None
    if rows is None or launches.load_of(rows) < vector:
        return f"takes q of {torch.bfloat16} whose rows begin at multiples of {2 * vector} bytes, as in empty_rows"
    return None


def features_in_rows(features: torch.Tensor, linear: torch.Tensor | None) -> str | None:
    """The limit of features of k08 to k10."""
    if linear is not None and (features.dtype != torch.bfloat16 or launches.words_of(features) is None):
        return f"takes features of {torch.bfloat16} in rows of empty_rows"
    return None


def selections_fit(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    shape = shape_of(q, features, rest[0])
    if reason := q_in_rows(q):
        return reason
    if (row := launches.words_of(features)) is None:
        return "takes features of torch.bfloat16 in rows of empty_rows, which begin at multiples of 16 bytes"
    if rest[0] is not None and selection_tile_of(shape.domains, row) is None:
        return (
            f"takes up to {MOST_DOMAINS} domains, and tiles of points in {SHARED_OF_ONE} bytes of shared memory, not"
            f" {shape.domains} x {shape.width}"
        )
    return cooperates(q, features, *rest)


def lanes_fit(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    shape, row = shape_of(q, features, rest[0]), launches.words_of(features)
    if reason := q_in_rows(q, 4 if shape.domains <= 4 else 8) or features_in_rows(features, rest[0]):
        return reason
    if rest[0] is not None and row is not None and lane_tile_of(shape.domains, row.words) is None:
        return f"takes up to 8 domains and {8 * MOST_VECTORS} features, not {shape.domains} x {shape.width}"
    return cooperates(q, features, *rest)


def warpgroups_fit(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    shape, row = shape_of(q, features, rest[0]), launches.words_of(features)
    if reason := q_in_rows(q) or features_in_rows(features, rest[0]):
        return reason
    if rest[0] is not None and row is not None and warpgroup_tile_of(shape.domains, row.words) is None:
        return (
            f"takes up to {MOST_DOMAINS} domains, and features in rows of up to {8 * MOST_OF_WARPGROUP} columns, not"
            f" {shape.domains} domains and {row.in_word * row.words} columns"
        )
    return requires_hopper(q) or cooperates(q, features, *rest)


def eight_lanes_fit(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    shape, row = shape_of(q, features, rest[0]), launches.words_of(features)
    if reason := q_in_rows(q) or features_in_rows(features, rest[0]):
        return reason
    if q.shape[2] < cdiv(shape.domains, 8) * 8:
        return f"takes q with columns of zeros up to {cdiv(shape.domains, 8) * 8}, as `rows_of` of empty_rows has them"
    if rest[0] is not None and row is not None and eight_tile_of(shape.domains, row.words) is None:
        return (
            f"takes up to {MOST_DOMAINS} domains, and moments of {EIGHT_WARPS} warps in {SHARED_OF_ONE} bytes of shared"
            f" memory, not {shape.domains} x {shape.width}"
        )
    if rest[4] is not None:
        return "takes no weights"
    return cooperates(q, features, *rest)


def cooperates(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    """The limits of cooperative launches: k03, k04 and k06 to k10."""
    if rest[0] is None:
        return "takes features with linear and constant, not scores"
    if rest[7] is not None:
        return "takes no interaction"
    return resident_fits(len(q), q.shape[1], len(set(rest[8])) - 1) or limits(q, features, *rest)


def resident_fits(points: int, restarts: int, colours: int) -> str | None:
    """The limits of cooperative launches. ``colours``: those that have points."""
    if restarts > MOST_RESIDENT:
        return f"takes up to {MOST_RESIDENT} restarts, not {restarts}"
    if colours > MOST_COLOURS:
        return f"takes up to {MOST_COLOURS} colours, not {colours}"
    most = MOST_INDEX - 2**20
    return f"takes up to {most} points, not {points}" if points > most else None


def triton_fits(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    shape = shape_of(q, features, rest[0])
    if padded(shape.domains) * max(padded(shape.width), padded(shape.domains)) > TRITON_SUMS:
        return (
            f"takes up to {TRITON_SUMS} sums in registers, powers of two of domains times features, not"
            f" {shape.domains} x {shape.width}"
        )
    if shape.restarts > 65535:
        return f"takes up to 65535 restarts, not {shape.restarts}"
    return limits(q, features, *rest)


def rung(
    name: str,
    idea: str,
    launch: Callable[..., None],
    takes: Callable[..., str | None],
    repeats: bool = True,
    rows: bool = False,
    features: bool = False,
) -> Any:
    """``rows``: takes q in bfloat16 too, in padded rows without a copy, and with columns of zeros. ``features``: takes
    them in bfloat16."""
    launch = launches.in_rows(launch) if rows else launch
    takes = takes if features else float32_fits(takes, only_features=rows)
    takes = takes if rows else without_columns_of_zeros(takes)
    return make_rung(HERE, name, idea, launch, dtypes=DTYPES, limits=takes, deterministic=repeats, strided=rows)


RUNGS = (
    rung(
        "k01_thread_per_point",
        "one thread per point, atomics for the moments",
        launches.thread_per_point,
        limits,
        repeats=False,
    ),
    rung(
        "k02_point_tiles",
        "tiles of points in shared memory, moments in registers",
        launches.point_tiles,
        tiles_fit,
    ),
    rung(
        "k03_one_launch",
        "all colours in one launch, a tile for each warp, products by tensor cores",
        launches.one_launch,
        one_launch_fits,
        rows=True,
    ),
    rung(
        "k04_in_fragments",
        "sums of neighbours and q stay in the fragments of a warp",
        launches.in_fragments,
        in_fragments_fits,
    ),
    rung("k05_triton", "blocks of points in Triton, scores and moments by tl.dot", launches.triton, triton_fits),
    rung(
        "k06_gather_warps",
        "warps that only gather, beside warps that only update",
        launches.gather_warps,
        gather_warps_fit,
    ),
    rung(
        "k07_selection_products",
        "sums of neighbours as products with a selection matrix, q in bfloat16",
        launches.selection_products,
        selections_fit,
        rows=True,
        features=True,
    ),
    rung(
        "k08_point_lanes",
        "a point for each lane, q and features in bfloat16",
        launches.point_lanes,
        lanes_fit,
        rows=True,
        features=True,
    ),
    rung(
        "k09_warpgroup_products",
        "scores and moments by wgmma, q and features in bfloat16",
        launches.warpgroup_products,
        warpgroups_fit,
        rows=True,
        features=True,
    ),
    rung(
        "k10_eight_lanes",
        "eight adjacent lanes load a row of q, q and features in bfloat16",
        launches.eight_lanes,
        eight_lanes_fit,
        rows=True,
        features=True,
    ),
)


def default(*args: Any) -> str | None:
    """The first of these rungs that takes the arguments, or None for PyTorch. Features in bfloat16: k08, k07. q in
    bfloat16 of more than eight domains: k07. Up to eight domains: k03, k02. Else: k06 where ``gathers`` is true, k04,
    k02."""
    q, features, domains = args[0], args[1], domains_of(*args[1:3])
    if features.dtype == torch.bfloat16:
        return first_taking(SPEC, RUNGS, args, "k08_point_lanes", "k07_selection_products")
    if q.dtype == torch.bfloat16 and domains > 8:
        return first_taking(SPEC, RUNGS, args, "k07_selection_products")
    if domains <= 8:
        return first_taking(SPEC, RUNGS, args, "k03_one_launch", "k02_point_tiles")
    most = max((end - begin for begin, end in launches.colours(args[10])), default=0)
    many = launches.warps_an_sm(q, most)
    gathering = ("k06_gather_warps",) if gathers(domains, features.shape[1], launches.vector_of(domains), many) else ()
    return first_taking(SPEC, RUNGS, args, *gathering, "k04_in_fragments", "k02_point_tiles")


def rounding_pays(shape: Shape, colours: int) -> bool:
    """Whether a step takes less time with q in bfloat16, in ``empty_rows``, than with float32.

    For float32 features with linear and constant, a graph of int32 without interaction, and as many ``colours`` that
    have points. Not where k03 and k07 do not fit, or where k07 has shared memory for only 8 points of each warp.
    """
    domains, width = shape.domains, shape.width
    if domains <= 8:
        tiled = warp_tile_of(domains, width, torch.bfloat16) is not None
    else:
        tiled = _pairs_fit(domains, Row(width))
    return tiled and _launches(shape, colours)


def rounding_features_pays(shape: Shape, colours: int) -> bool:
    """Whether a step takes less time with q and the features in bfloat16, in ``empty_rows``, than with features in
    float32, for the arguments of ``rounding_pays``. Not where neither k08 nor k07 fits, and not for up to 4 domains of
    more features than k08 takes, where k03 is faster than k07."""
    domains, row = shape.domains, Row(pitch_for(shape.width) // 2, 2)
    tiled = lane_tile_of(domains, row.words) is not None or (domains > 4 and _pairs_fit(domains, row))
    return tiled and _launches(shape, colours)


def _launches(shape: Shape, colours: int) -> bool:
    """Whether a cooperative launch takes so many points, restarts and colours."""
    points, restarts = shape.n, shape.restarts
    return index_fits(points, restarts) is None and resident_fits(points, restarts, colours) is None


def _pairs_fit(domains: int, row: Row) -> bool:
    """Whether the tile of a warp of k07 has 16 points or more."""
    tile = selection_tile_of(domains, row)
    return tile is not None and tile.groups > 1
