"""The ladder of potts_em_step, slowest idea first."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.potts_em_step.spec import DTYPES

HERE = Path(__file__).parent
THREADS = 128  # kThreads of k02
SHARED_OF_TWO, SHARED_OF_ONE = 112 * 1024, 224 * 1024  # bytes per block, with two blocks and with one per SM
MOST_BLOCKS_AN_SM = 5  # resident blocks of k02, limited by registers
MOST_DOMAINS, MOST_POINTS = 128, 128  # of k02: 32 lanes of four domains; points of a tile
MOST_TILES = 8  # tiles of 4 x 4 moments per thread
MOST_INDEX = 2**31 - 1
MOST_SUMS = 16  # of k03: tiles of 16 features x 8 domains per warp
MOST_RESIDENT = 64  # restarts: their blocks are resident at the same time
MOST_COLOURS = 32  # kMostColours of k03 and k04
MOST_OF_LANE = 20  # of k04: tiles of 16 domains x 8 features of a warp
OWN_BLOCKS = (10, 2), (8, 2), (6, 2), (8, 1)  # warps, and resident blocks per SM, of k04
SHARED_BLOCKS = (8, 2), (8, 1)
OTHER_REGISTERS = 44  # of k04, besides sums and rows of q
SHARED_OF_SM, RESERVED = 228 * 1024, 1024  # bytes of an SM, and those that each block takes besides
TRITON_SUMS = 16384  # of k05: domains x domains and domains x features in the registers of 128 threads

THREAD_PER_POINT = cuda.load(HERE / "k01_thread_per_point.cu")
POINT_TILES = cuda.load(HERE / "k02_point_tiles.cu")
ONE_LAUNCH = cuda.load(HERE / "k03_one_launch.cu")
IN_FRAGMENTS = cuda.load(HERE / "k04_in_fragments.cu")

Outputs = tuple[torch.Tensor | None, ...]


class Shape(NamedTuple):
    """Sizes of a call; ``width`` is 0 where scores are given."""

    n: int
    restarts: int
    domains: int
    width: int


class Tile(NamedTuple):
    """``points`` points of k02's tile, ``lanes`` each, ``moments`` blocks per thread, ``bytes`` of shared memory."""

    points: int
    lanes: int
    moments: int
    bytes: int


class WarpTile(NamedTuple):
    """k03: ``lanes`` per point with ``quads`` of four domains each, ``rows`` tiles of 16 features, ``points`` per warp,
    bytes of shared memory of a block, and resident blocks per SM."""

    lanes: int
    quads: int
    rows: int
    points: int
    bytes: int
    blocks: int


def shape_of(q: torch.Tensor, features: torch.Tensor, linear: torch.Tensor | None) -> Shape:
    n, restarts, domains = q.shape
    return Shape(n, restarts, domains, 0 if linear is None else features.shape[1])


def shared_floats(points: int, domains: int, width: int) -> int:
    """A tile of q, the coefficients, and two tiles of features and rowptr; at the end, the moments of each thread."""
    stride, q_stride = ((cdiv(size, 4) | 1) * 4 for size in (width, domains))
    coefficients = cdiv(domains, 4) * 4 * stride if width else 0
    buffer = (points * stride if width else 0) + points + 4
    return max(points * q_stride + coefficients + 2 * buffer, 16 * THREADS)


def tile_of(domains: int, width: int) -> Tile | None:
    """About 2048 probabilities per tile, fewer if there are many features; None if moments or tile do not fit."""
    blocks = cdiv(cdiv(domains, 4) * cdiv(width, 4), THREADS)
    moments = next((count for count in (0, 1, 2, 4, MOST_TILES) if count >= blocks), None)
    if domains > MOST_DOMAINS or moments is None:
        return None
    lanes = 1 << (cdiv(domains, 4) - 1).bit_length()
    for room in (SHARED_OF_TWO, SHARED_OF_ONE):
        points = max(32, min(MOST_POINTS, 512 // lanes))
        while points >= 32:
            if (size := 4 * shared_floats(points, domains, width)) <= room:
                return Tile(points, lanes, moments, size)
            points //= 2
    return None


def warp_tile_of(domains: int, width: int) -> WarpTile | None:
    """Up to eight domains per lane; None if the moments do not fit in a warp's registers, or tiles in shared memory."""
    if not 1 <= domains <= MOST_DOMAINS or width < 1:
        return None
    rows, wanted = 1 << (cdiv(width, 16) - 1).bit_length(), cdiv(domains, 4)
    wide = rows > 2
    quads = 1 if wide and wanted <= 2 else min(2, wanted)
    lanes = max(2 if wide else 1, 1 << (cdiv(wanted, quads) - 1).bit_length())
    points, columns = 32 // lanes if wide else 32, cdiv(lanes * quads, 2)  # tile_points
    if rows * columns > MOST_SUMS:
        return None
    stride, q_stride = ((cdiv(size, 4) | 1) * 4 for size in (width, 8 * columns))
    held = 4 * lanes * quads
    warps = THREADS // 32
    floats = held * (stride + 1) + warps * points * (q_stride + 2 * stride)
    size = 4 * max(floats, warps * (128 * rows * columns + held + 2))
    if size > SHARED_OF_ONE:
        return None
    tiles = rows * columns
    registers = 3 if tiles > 8 else 4  # blocks_an_sm
    return WarpTile(lanes, quads, rows, points, size, min(registers, SHARED_OF_ONE // size))


class FragmentTile(NamedTuple):
    """k04: ``warps`` of a block, resident ``blocks`` per SM, ``tiles`` of 16 domains, ``steps`` of 8 features, 0 if a
    warp has all moments of its points, else ``warps_n`` warps with other features, rows of q in ``flight``, bytes of
    shared memory of a block, and sums of a lane."""

    warps: int
    blocks: int
    tiles: int
    steps: int
    warps_n: int
    flight: int
    bytes: int
    slots: int


def fragment_tile_of(domains: int, width: int) -> FragmentTile | None:
    """None if the moments do not fit in the registers of a block, or its tiles in shared memory."""
    if not 1 <= domains <= MOST_DOMAINS or width < 1:
        return None
    tiles, steps = cdiv(domains, 16), cdiv(width, 8)
    own = tiles * steps <= MOST_OF_LANE
    found = [
        tile
        for warps, blocks in (OWN_BLOCKS if own else SHARED_BLOCKS)
        if (tile := _fragment_tile(warps, blocks, tiles, steps, own)) is not None
    ]
    return max(found, key=lambda tile: (tile.warps * tile.blocks * tile.flight, tile.warps * tile.blocks), default=None)


def _fragment_tile(warps: int, blocks: int, tiles: int, steps: int, own: bool) -> FragmentTile | None:
    warps_m, warps_n = 1 << (cdiv(tiles, 2) - 1).bit_length(), 0 if own else 1
    while not own and cdiv(steps, warps_n) > 4 and warps_m * warps_n < warps:
        warps_n *= 2
    moments = tiles * steps if own else 2 * cdiv(steps, warps_n)
    stride = (cdiv(8 * steps, 4) | 1) * 4
    buffers = 16 * tiles * (8 * steps + 2) + 16 * warps * (stride + 8)
    parts = warps if own else warps // (warps_m * warps_n)
    sums = 32 * (4 * tiles * steps * parts + warps * (2 * tiles + 2))
    size = 4 * (buffers + sums if own else max(buffers + 256 * tiles * warps, sums))
    registers = min(255, 2048 // (warps * blocks) // 8 * 8) - OTHER_REGISTERS
    left = registers - 6 * tiles - (0 if own else 4 * moments)  # own moments are in registers while no row is
    flight = next((count for count in (8, 4, 2, 1) if 2 * tiles * count <= left), 0)
    if own and 4 * (moments + tiles + steps) > registers:
        return None
    if not flight or moments > MOST_OF_LANE or blocks * (size + RESERVED) > SHARED_OF_SM:
        return None
    return FragmentTile(warps, blocks, tiles, steps, warps_n, flight, size, 4 * tiles * steps + 2 * tiles + 2)


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


def one_launch(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    counts, sums, derivatives, near = outputs
    linear, constant, *graph, beta, external, _, bounds, temper, _, _ = rest
    shape = shape_of(q, features, linear)
    tile = warp_tile_of(shape.domains, shape.width)
    assert tile is not None  # limits
    if (ends := _colours_of(shape, outputs, bounds)) is None:
        return
    resident = max(1, sm_count(q) * tile.blocks // shape.restarts)
    grid = _balanced(cdiv(_largest(ends), THREADS // 32 * tile.points), resident)
    size = shape.domains * (shape.width + 1) + 2
    partials = q.new_empty((shape.restarts, size, grid))
    vector = shape.domains % 4 == 0 and all(part is None or part.data_ptr() % 16 == 0 for part in (q, external, near))
    full = shape.domains == 4 * tile.lanes * tile.quads
    flags = ", ".join(str(flag).lower() for flag in (vector, full))
    kernel = ONE_LAUNCH[f"potts_em_step_one_launch<{tile.lanes}, {tile.quads}, {tile.rows}, {flags}>"]
    launch = kernel[(grid, shape.restarts), THREADS, tile.bytes]
    launch(q, features, linear, constant, *graph, beta, external, partials, sums, counts, derivatives, near, ends,
           *shape[1:], *external_strides(external), temper)  # fmt: skip


def in_fragments(outputs: Outputs, q: torch.Tensor, features: torch.Tensor, *rest: Any) -> None:
    counts, sums, derivatives, near = outputs
    linear, constant, *graph, beta, external, _, bounds, temper, _, _ = rest
    shape = shape_of(q, features, linear)
    if (ends := _colours_of(shape, outputs, bounds)) is None:
        return
    tile = fragment_tile_of(shape.domains, shape.width)
    assert tile is not None  # limits
    resident = max(1, sm_count(q) * tile.blocks // shape.restarts)
    grid = _balanced(cdiv(_largest(ends), 8 * tile.warps), resident)
    partials = q.new_empty((grid, shape.restarts, tile.slots, 32))
    parameters = ", ".join(map(str, (*tile[:6], _vector_of(shape.domains, q, external, near))))
    name = f"potts_em_step_in_fragments<{parameters}, {str(external.shape[0] > 1).lower()}>"
    launch = IN_FRAGMENTS[name][(grid, shape.restarts), 32 * tile.warps, tile.bytes]
    launch(q, features, linear, constant, *graph, beta, external, partials, sums, counts, derivatives, near, ends,
           *shape[1:], *external_strides(external), temper)  # fmt: skip


def _vector_of(domains: int, *tensors: torch.Tensor | None) -> int:
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


def limits(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    rowptr, columns = rest[2:4]
    if rowptr.dtype != torch.int32 or columns.dtype != torch.int32:
        return f"takes a graph of int32, not {columns.dtype}"
    if len(q) * q.shape[1] > MOST_INDEX:
        return f"takes up to {MOST_INDEX} points times restarts, not {len(q) * q.shape[1]}"
    return None


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
    if rest[0] is not None and warp_tile_of(shape.domains, shape.width) is None:
        return (
            f"takes up to {MOST_DOMAINS} domains, and {MOST_SUMS} tiles of 16 features x 8 domains per warp, not"
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


def cooperates(q: torch.Tensor, features: torch.Tensor, *rest: Any) -> str | None:
    """The limits of k03 and k04."""
    if rest[0] is None:
        return "takes features with linear and constant, not scores"
    if rest[7] is not None:
        return "takes no interaction"
    if q.shape[1] > MOST_RESIDENT:
        return f"takes up to {MOST_RESIDENT} restarts, not {q.shape[1]}"
    if len(set(rest[8])) - 1 > MOST_COLOURS:
        return f"takes up to {MOST_COLOURS} colours, not {len(set(rest[8])) - 1}"
    if len(q) > MOST_INDEX - 2**20:
        return f"takes up to {MOST_INDEX - 2**20} points, not {len(q)}"
    return limits(q, features, *rest)


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


def padded(size: int) -> int:
    """The power of two from 16, the least of tl.dot, that is at least ``size``."""
    return max(16, 1 << max(0, size - 1).bit_length())


def rung(name: str, idea: str, launch: Callable[..., None], takes: Callable[..., str | None], repeats: bool) -> Any:
    return make_rung(HERE, name, idea, launch, dtypes=DTYPES, limits=takes, deterministic=repeats)


RUNGS = (
    rung("k01_thread_per_point", "one thread per point, atomics for the moments", thread_per_point, limits, False),
    rung("k02_point_tiles", "tiles of points in shared memory, moments in registers", point_tiles, tiles_fit, True),
    rung(
        "k03_one_launch",
        "all colours in one launch, a tile for each warp, moments by tensor cores",
        one_launch,
        one_launch_fits,
        True,
    ),
    rung(
        "k04_in_fragments",
        "sums of neighbours and q stay in the fragments of a warp",
        in_fragments,
        in_fragments_fits,
        True,
    ),
    rung("k05_triton", "blocks of points in Triton, scores and moments by tl.dot", triton, triton_fits, True),
)


def default(*args: Any) -> str | None:
    """k03 for up to eight domains, where a lane has all of a point; else k04, or k02, where it takes the arguments."""
    if args[0].shape[2] <= 8:
        return first_taking(RUNGS, args, "k03_one_launch", "k02_point_tiles")
    return first_taking(RUNGS, args, "k04_in_fragments", "k02_point_tiles")
