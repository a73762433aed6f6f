"""The launches of potts_em_step's rungs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.arguments.values import argument_for, as_tuple, copy_back, map_tensors, output_for, single
from warpwise.operation import cdiv, sm_count
from warpwise.ops.potts_em_step.eight_tiles import eight_tile_of
from warpwise.ops.potts_em_step.lane_tiles import lane_tile_of
from warpwise.ops.potts_em_step.selection_tiles import Row, of_last_vector, selection_tile_of, turn_of
from warpwise.ops.potts_em_step.spec import rows_of
from warpwise.ops.potts_em_step.tiles import (
    SHARED_OF_ONE,
    THREADS,
    FragmentTile,
    GatherTile,
    Shape,
    fragment_tile_of,
    gather_tile_of,
    shape_of,
    tile_of,
    warp_tile_of,
)
from warpwise.ops.potts_em_step.warpgroup_tiles import warpgroup_tile_of

HERE = Path(__file__).parent
MOST_BLOCKS_AN_SM = 5  # resident blocks of k02, limited by registers
MOST_COLOURS = 32  # kMostColours of k03 and k04

THREAD_PER_POINT = cuda.load(HERE / "k01_thread_per_point.cu")
POINT_TILES = cuda.load(HERE / "k02_point_tiles.cu")
ONE_LAUNCH = cuda.load(HERE / "k03_one_launch.cu")
IN_FRAGMENTS = cuda.load(HERE / "k04_in_fragments.cu")
GATHER_WARPS = cuda.load(HERE / "k06_gather_warps.cu")
SELECTION_PRODUCTS = cuda.load(HERE / "k07_selection_products.cu")
POINT_LANES = cuda.load(HERE / "k08_point_lanes.cu")
WARPGROUP_PRODUCTS = cuda.load(HERE / "k09_warpgroup_products.cu")
EIGHT_LANES = cuda.load(HERE / "k10_eight_lanes.cu")

Outputs = tuple[torch.Tensor | None, ...]
Launch = Callable[..., None]


def _balanced(tiles: int, resident: int) -> int:
    """The smallest number of blocks with as many iterations over the tiles as ``resident`` blocks."""
    return cdiv(tiles, cdiv(tiles, resident))


def colours(bounds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first point and the end of each colour that has points."""
    return ((begin, end) for begin, end in pairwise(bounds) if begin < end)


def external_strides(external: torch.Tensor) -> tuple[int, int]:
    """Strides in elements from point to point and from restart to restart; 0 along a size of 1."""
    points, restarts, domains = external.shape
    return (restarts * domains if points > 1 else 0), (domains if restarts > 1 else 0)


def in_rows(launch: Launch, writes: bool = True) -> Launch:
    """A launch that takes tensors of any strides: q, to which the launch may write, is made contiguous if it has no
    ``rows_of``. Other tensors of bfloat16 keep their strides; all others are made contiguous."""

    def launched(outputs: Any, q: torch.Tensor, *rest: Any) -> None:
        made = [output_for(output, False) for output in as_tuple(outputs)]
        given = q if rows_of(q) is not None else q.contiguous()
        launch(single(made), given, *map_tensors(lambda part: argument_for(part, part.dtype == torch.bfloat16), rest))
        copy_back(as_tuple(outputs), made)
        if writes:
            copy_back(q, given)

    return launched


def load_of(rows: torch.Tensor) -> int:
    """The elements, up to 16 bytes, that one instruction takes from a row of ``rows_of``."""
    size = rows.element_size()
    return next(
        count
        for count in (16 // size, 8 // size, 4 // size, 1)
        if count and rows.shape[2] % count == 0 and rows.data_ptr() % (count * size) == 0
    )


def features_in_rows(features: torch.Tensor) -> torch.Tensor | None:
    """``features`` (N, D), or in bfloat16 ``rows_of`` them."""
    return rows_of(features[:, None]) if features.dtype == torch.bfloat16 else features


def words_of(features: torch.Tensor) -> Row | None:
    """The rows of ``features`` (N, D) as k07 copies them. None for bfloat16 unless rows have 8 bytes, or begin at
    multiples of 16 bytes, as those of ``empty_rows`` do."""
    if features.dtype != torch.bfloat16:
        return Row(features.shape[1])
    rows = features_in_rows(features)
    aligned = rows is not None and load_of(rows) >= min(8, rows.shape[2])
    return Row(rows.shape[2] // 2, 2) if rows is not None and aligned and rows.shape[2] >= 4 else None


def is_aligned(*tensors: torch.Tensor | None) -> bool:
    return all(part is None or part.data_ptr() % 16 == 0 for part in tensors)


def padded(size: int) -> int:
    """The power of two from 16, the least of tl.dot, that is at least ``size``."""
    return max(16, 1 << max(0, size - 1).bit_length())


def thread_per_point(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    counts, sums, derivatives, near = outputs
    linear, constant, *graph, beta, external, interaction, bounds, temper, _, _ = rest
    shape = shape_of(q, features, linear)
    for output in (counts, sums, derivatives):
        if output is not None:
            output.zero_()
    kernel = THREAD_PER_POINT["potts_em_step_thread_per_point"]
    for begin, end in colours(bounds):
        launch = kernel[cdiv((end - begin) * shape.restarts, 256), 256]
        launch(q, features, linear, constant, *graph, beta, external, interaction, counts, sums, derivatives, near,
               begin, end, bounds[0], *shape[1:], *external_strides(external), temper)  # fmt: skip


def point_tiles(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    counts, sums, derivatives, near = outputs
    linear, constant, *graph, beta, external, interaction, bounds, temper, _, _ = rest
    shape = shape_of(q, features, linear)
    tile = tile_of(shape.domains, shape.width)
    assert tile is not None  # limits
    moments = shape.domains * shape.width
    size = (moments + shape.domains if linear is not None else 0) + (2 if derivatives is not None else 0)
    resident = cdiv(sm_count(q) * min(MOST_BLOCKS_AN_SM, SHARED_OF_ONE // tile.bytes), shape.restarts)
    grids = [_balanced(cdiv(end - begin, tile.points), resident) for begin, end in colours(bounds)]
    rows = max(grids, default=0)
    partials = q.new_empty((rows, shape.restarts, size)) if rows and size else None
    kernel, written = POINT_TILES[f"potts_em_step_point_tiles<{tile.moments}>"], 0
    for (begin, end), grid in zip(colours(bounds), grids, strict=True):
        launch = kernel[(grid, shape.restarts), THREADS, tile.bytes]
        launch(q, features, linear, constant, *graph, beta, external, interaction, partials, near, begin, end,
               bounds[0], written, *shape[1:], *external_strides(external), temper, derivatives is not None,
               tile.points, tile.lanes)  # fmt: skip
        written = max(written, grid)
    outs = [output for output in (sums, counts, derivatives) if output is not None]
    if partials is None:
        for output in outs:
            output.zero_()
        return
    add = POINT_TILES["potts_em_step_add_partials"][cdiv(shape.restarts * size, 32), 1024]
    add(partials, sums, counts, derivatives, rows, shape.restarts, size, moments, shape.domains)


class Colours(ctypes.Structure):
    """Points ``ends[c]`` to ``ends[c + 1]`` have colour c."""

    _fields_ = (("count", ctypes.c_int), ("ends", ctypes.c_int * (MOST_COLOURS + 1)))


def vector_of(domains: int, *tensors: torch.Tensor | None) -> int:
    """The floats, up to four, that one instruction takes from rows of ``domains``."""
    return next(
        size
        for size in (4, 2, 1)
        if domains % size == 0 and all(part is None or part.data_ptr() % (4 * size) == 0 for part in tensors)
    )


def _colours_of(shape: Shape, outputs: Outputs, bounds: Sequence[int]) -> Colours | None:
    """The colours that have points; None, after the outputs are set to zero, if there are none or no restarts."""
    parts = list(colours(bounds))
    if parts and shape.restarts:
        return Colours(len(parts), (parts[0][0], *(end for _, end in parts)))
    for output in outputs[:3]:
        if output is not None:
            output.zero_()
    return None


def _largest(ends: Colours) -> int:
    """The points of the largest colour."""
    return max(end - begin for begin, end in pairwise(ends.ends[: ends.count + 1]))


def one_launch(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    counts, sums, derivatives, near = outputs
    linear, constant, *graph, beta, external, _, bounds, temper, _, _ = rest
    shape = shape_of(q, features, linear)
    if (ends := _colours_of(shape, outputs, bounds)) is None:
        return
    points_an_sm = cdiv(_largest(ends) * shape.restarts, sm_count(q))
    tile, rows = warp_tile_of(shape.domains, shape.width, q.dtype, points_an_sm), rows_of(q)
    assert tile is not None and rows is not None  # limits, in_rows
    resident = max(1, sm_count(q) * tile.blocks // shape.restarts)
    grid = _balanced(cdiv(_largest(ends), THREADS // 32 * tile.points), resident)
    size = shape.domains * (shape.width + 1) + 2
    partials = features.new_empty(shape.restarts * (size + 8) * grid)
    *options, bytes = tile
    full, wide = shape.domains == tile.own * tile.lanes, shape.domains % 4 == 0 and is_aligned(external, near)
    vector = load_of(rows) >= tile.own and (wide or (q.dtype != torch.float32 and not full))
    flags = (str(flag).lower() for flag in (vector, full, external.shape[0] > 1))
    name = f"potts_em_step_one_launch<{', '.join((cuda.ctype(q.dtype), *map(str, options), *flags))}>"
    launch = ONE_LAUNCH[name][(grid, shape.restarts), THREADS, bytes]
    launch(rows, features, linear, constant, *graph, beta, external, partials, sums, counts, derivatives, near, ends,
           *shape[1:], rows.shape[2], *external_strides(external), temper)  # fmt: skip


def warps_an_sm(q: torch.Tensor, most: int) -> int:
    """The warps of each SM that ``most`` points of k04 and k06 fill."""
    return cdiv(cdiv(most, 8) * q.shape[1], sm_count(q))


def in_fragments(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    def tile_of(shape: Shape, most: int, vector: int) -> FragmentTile | None:
        return fragment_tile_of(shape.domains, shape.width, warps_an_sm(q, most))

    _by_fragments(outputs, (q, features, *rest), IN_FRAGMENTS, tile_of)


def gather_warps(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    def tile_of(shape: Shape, most: int, vector: int) -> GatherTile | None:
        return gather_tile_of(shape.domains, shape.width, vector)

    _by_fragments(outputs, (q, features, *rest), GATHER_WARPS, tile_of, rest[4] is not None)


def _by_fragments(
    outputs: Outputs,
    args: tuple[Any, ...],
    module: cuda.Module,
    tile_of: Callable[[Shape, int, int], FragmentTile | GatherTile | None],
    *flags: bool,
) -> None:
    """The launch of k04 and k06. ``tile_of`` takes the sizes, the points of the largest colour, and the floats that one
    load has; ``flags`` are the template's last arguments."""
    counts, sums, derivatives, near = outputs
    q, features, linear, constant, *graph, beta, external, _, bounds, temper, _, _ = args
    shape = shape_of(q, features, linear)
    if (ends := _colours_of(shape, outputs, bounds)) is None:
        return
    vector = vector_of(shape.domains, q, external, near)
    tile = tile_of(shape, _largest(ends), vector)
    assert tile is not None  # limits
    resident = max(1, sm_count(q) * tile.resident // shape.restarts)
    grid = _balanced(cdiv(_largest(ends), 8 * tile.warps), resident)
    partials = q.new_empty((grid, shape.restarts, tile.slots, 32))
    *numbers, bytes, _ = tile
    options = (str(flag).lower() for flag in (external.shape[0] > 1, *flags))
    name = f"{tile.kernel}<{', '.join((*map(str, (*numbers, vector)), *options))}>"
    launch = module[name][(grid, shape.restarts), tile.threads, bytes]
    launch(q, features, linear, constant, *graph, beta, external, partials, sums, counts, derivatives, near, ends,
           *shape[1:], *external_strides(external), temper)  # fmt: skip


class RowsLaunch(NamedTuple):
    """A launch of k07 to k10: its template arguments ``before`` and ``after`` those that all have, blocks of a
    restart, warps and bytes of shared memory of a block, and sums of a lane."""

    before: tuple[Any, ...]
    after: tuple[Any, ...]
    blocks: int
    warps: int
    bytes: int
    slots: int


def selection_products(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    def plan(shape: Shape, row: Row, most: int, pitch: int) -> RowsLaunch:
        tile = selection_tile_of(shape.domains, row, warps_an_sm(q, most))
        assert tile is not None  # limits
        resident = max(1, sm_count(q) * tile.blocks // shape.restarts)
        tiles = cdiv(most, 8 * tile.groups * (tile.warps if tile.warps_n else 1))
        # If warps_n is 0, a warp has tiles of its own.
        blocks = _balanced(tiles, resident) if tile.warps_n else min(tiles, resident)
        *numbers, bytes, slots = tile
        before = cuda.ctype(features.dtype), *numbers, of_last_vector(shape.domains, q.shape[2])
        after = (turn_of(tile.tiles, shape.restarts * pitch),)
        return RowsLaunch(before, after, blocks, tile.warps, bytes, slots)

    _by_rows(outputs, (q, features, *rest), SELECTION_PRODUCTS, "potts_em_step_selection_products", plan)


def point_lanes(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    def plan(shape: Shape, row: Row, most: int, pitch: int) -> RowsLaunch:
        tile = lane_tile_of(shape.domains, row.words)
        assert tile is not None  # limits
        resident = max(1, sm_count(q) * tile.blocks // shape.restarts)
        tiles, sms = cdiv(most, 32), max(1, sm_count(q) // shape.restarts)
        blocks = min(tiles, max(sms, _balanced(cdiv(tiles, tile.warps), resident)))
        *numbers, bytes, slots = tile
        fields, near = rest[6].shape[0] > 1, outputs[3] is not None
        full = shape.domains == tile.own or (q.shape[2] >= tile.own and not near and not fields)
        return RowsLaunch((*numbers, full), (), blocks, tile.warps, bytes, slots)

    _by_rows(outputs, (q, features, *rest), POINT_LANES, "potts_em_step_point_lanes", plan)


def warpgroup_products(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    def plan(shape: Shape, row: Row, most: int, pitch: int) -> RowsLaunch:
        tile = warpgroup_tile_of(shape.domains, row.words)
        assert tile is not None  # limits
        resident = max(1, sm_count(q) // shape.restarts)
        *numbers, bytes, slots = tile
        before = *numbers, of_last_vector(shape.domains, q.shape[2])
        after = (turn_of(tile.tiles, shape.restarts * pitch),)
        return RowsLaunch(before, after, min(cdiv(most, 64), resident), 4 * (tile.updaters + 1), bytes, slots)

    _by_rows(outputs, (q, features, *rest), WARPGROUP_PRODUCTS, "potts_em_step_warpgroup_products", plan)


def eight_lanes(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    def plan(shape: Shape, row: Row, most: int, pitch: int) -> RowsLaunch:
        tile = eight_tile_of(shape.domains, row.words)
        assert tile is not None  # limits
        resident = max(1, sm_count(q) // shape.restarts)
        *numbers, bytes, slots = tile
        return RowsLaunch(tuple(numbers), (), min(cdiv(most, 16), resident), tile.warps, bytes, slots)

    _by_rows(outputs, (q, features, *rest), EIGHT_LANES, "potts_em_step_eight_lanes", plan)


def _by_rows(
    outputs: Outputs,
    args: tuple[Any, ...],
    module: cuda.Module,
    kernel: str,
    plan: Callable[[Shape, Row, int, int], RowsLaunch],
) -> None:
    """The launch of k07 to k10. ``plan`` takes the sizes, the rows of features, the points of the largest colour, and
    the elements from row to row of q."""
    counts, sums, derivatives, near = outputs
    q, features, linear, constant, *graph, beta, external, _, bounds, temper, _, _ = args
    shape, rows, row = shape_of(q, features, linear), rows_of(q), words_of(features)
    if (ends := _colours_of(shape, outputs, bounds)) is None:
        return
    assert row is not None and rows is not None  # limits, in_rows
    pitch = rows.shape[2]
    planned = plan(shape, row, _largest(ends), pitch)
    partials = beta.new_empty((planned.blocks, shape.restarts, planned.slots, 32))
    given = external.shape[0] > 1, graph[2] is not None, derivatives is not None, near is not None
    options = ", ".join(str(option).lower() for option in (*planned.before, *given, *planned.after))
    launch = module[f"{kernel}<{options}>"][(planned.blocks, shape.restarts), 32 * planned.warps, planned.bytes]
    launch(rows, features_in_rows(features), linear, constant, *graph, beta, external, partials, sums, counts,
           derivatives, near, ends, *shape[1:], row.words, pitch, *external_strides(external), temper)  # fmt: skip


def triton(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    from warpwise.ops.potts_em_step.k05_triton import launch

    *tensors, bounds, temper, _, _ = rest
    parts, external = list(colours(bounds)), tensors[6]
    if not parts or not q.shape[1]:
        for output in outputs[:3]:
            if output is not None:
                output.zero_()
        return
    sizes = shape_of(q, features, tensors[0])[1:]
    launch(
        outputs,
        (q, features, *tensors),
        parts,
        external_strides(external),
        sizes,
        (padded(sizes[1]), padded(sizes[2])),
        temper,
    )
