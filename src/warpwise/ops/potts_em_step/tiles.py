"""Tiles of the rungs of potts_em_step: which threads have which points, domains and moments."""

from __future__ import annotations

from typing import NamedTuple

import torch

from warpwise.device.limits import RESERVED, SM_SHARED
from warpwise.operation import cdiv
from warpwise.ops.potts_em_step.reference import domains_of

THREADS = 128  # kThreads of k02
SHARED_OF_TWO = 112 * 1024  # bytes of shared memory of a block, if an SM holds two
SHARED_OF_ONE = 224 * 1024  # the same, if an SM holds one
MOST_DOMAINS = 128  # of k02: 32 lanes of four domains
MOST_POINTS = 128  # points of a tile of k02
MOST_TILES = 8  # tiles of 4 x 4 moments per thread
MOST_SUMS = 16  # of k03: tiles of 16 features per warp
WIDE_POINTS = 384  # of k03: points of 12 warps of an SM
MOST_OF_LANE = 20  # of k04: tiles of 16 domains x 8 features of a warp
MOST_SHARED = 9  # of k04 and k06: the same of a warp that shares moments
OWN_BLOCKS = (10, 2), (8, 2), (6, 2), (8, 1)  # warps, and resident blocks per SM, of k04
FEW_WARPS = 4, 6, 8  # of a block, if all points of a colour fit in the warps of one block per SM
MOST_WARPS = 64  # of an SM
SHARED_BLOCKS = (8, 2), (8, 1)
# Warps of an SM in k04: so many with four rows of q in flight are faster than fewer with eight, for an even number of
# domains. For an odd number registers spill.
MORE_WARPS = 12
OTHER_REGISTERS = 44  # of k04, besides sums and rows of q
UPDATING = 8  # warps of a block of k06 that update
ROWS_OF_LANE = 64  # registers of k06 for rows in flight
MANY_WARPS = 10  # of an SM: k06 is faster for more
MOST_FEW = 16  # of an SM: for up to 16 domains k06 is faster only up to so many


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
    """k03: ``own`` domains of a lane and ``lanes`` of a point, ``rows`` tiles of 16 features, ``points`` of a warp,
    ``most`` resident blocks per SM for which a lane has registers, and bytes of shared memory of a block."""

    own: int
    lanes: int
    rows: int
    points: int
    most: int
    bytes: int

    @property
    def blocks(self) -> int:
        """Resident blocks per SM."""
        return min(self.most, SHARED_OF_ONE // self.bytes)


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

    @property
    def kernel(self) -> str:
        return "potts_em_step_in_fragments"

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def resident(self) -> int:
        """Blocks per SM."""
        return self.blocks


class GatherTile(NamedTuple):
    """k06: ``warps`` of a block that update, and one that gathers for every ``served`` of them; as for k04; ``stages``
    of sums of neighbours, a tile each; ``lanes`` that gather for a point, and vectors that a lane ``loads`` of a
    row."""

    warps: int
    served: int
    tiles: int
    steps: int
    warps_n: int
    stages: int
    lanes: int
    loads: int
    bytes: int
    slots: int

    @property
    def kernel(self) -> str:
        return "potts_em_step_gather_warps"

    @property
    def threads(self) -> int:
        return 32 * (self.warps + self.warps // self.served)

    @property
    def resident(self) -> int:
        """Blocks per SM."""
        return 1


def shape_of(q: torch.Tensor, features: torch.Tensor, linear: torch.Tensor | None) -> Shape:
    n, restarts, _ = q.shape
    return Shape(n, restarts, domains_of(features, linear), 0 if linear is None else features.shape[1])


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


def warp_tile_of(
    domains: int, width: int, dtype: torch.dtype = torch.float32, points_an_sm: int = 0
) -> WarpTile | None:
    """``dtype``: of q; a lane takes its domains from a row by one load of up to 16 bytes. ``points_an_sm``: so many of
    a colour are updated at the same time. None if there are more than eight domains, moments that do not fit in a
    warp's registers, or tiles in shared memory."""
    if not 1 <= domains <= 8 or width < 1:
        return None
    rows = 1 << (cdiv(width, 16) - 1).bit_length()
    if rows > MOST_SUMS:
        return None
    half, stride, warps = dtype != torch.float32, (cdiv(width, 4) | 1) * 4, THREADS // 32

    def bytes_of(points: int) -> int:
        floats = 256 * rows + 16 + warps * points * (12 + 9 + 2 * stride)
        return 4 * max(floats, warps * (128 * rows + 8 + 2))

    # Fewer points with many features, so that more warps fit on an SM. With bfloat16 and many points, instructions
    # count more, and one lane for a point needs fewer of them than two lanes.
    wide = half and rows == 4 and points_an_sm > WIDE_POINTS and 3 * bytes_of(32) <= SHARED_OF_ONE
    few = rows > 2 and not wide
    own, lanes = (8, 1) if half and domains > 4 and not few else (4, 2 if few or domains > 4 else 1)
    points, most = 16 if few else 32, 2 if rows > 8 else 3 if rows > 4 else 5 if half else 4
    size = bytes_of(points)
    if size > SHARED_OF_ONE:
        return None
    return WarpTile(own, lanes, rows, points, min(most, SHARED_OF_ONE // size) if half else most, size)


def fragment_tile_of(domains: int, width: int, warps_an_sm: int = MOST_WARPS) -> FragmentTile | None:
    """None if the moments do not fit in the registers of a block, or its tiles in shared memory. ``warps_an_sm``: so
    many have points at the same time."""
    if not 1 <= domains <= MOST_DOMAINS or width < 1:
        return None
    tiles, steps = cdiv(domains, 16), cdiv(width, 8)
    own = tiles * steps <= MOST_OF_LANE
    for warps in FEW_WARPS if own else ():
        if warps_an_sm <= warps and (tile := _fragment_tile(warps, 1, tiles, steps, own)) is not None:
            return tile
    found = [
        tile
        for warps, blocks in (OWN_BLOCKS if own else SHARED_BLOCKS)
        if (tile := _fragment_tile(warps, blocks, tiles, steps, own)) is not None
    ]

    def rank(tile: FragmentTile) -> tuple[bool, int, int]:
        warps = tile.warps * tile.blocks
        return domains % 2 == 0 and warps >= MORE_WARPS and tile.flight >= 4, warps * tile.flight, warps

    return max(found, key=rank, default=None)


def shares_of(tiles: int, steps: int, warps: int) -> tuple[int, int]:
    """The numbers of warps with other domains (kWarpsM) and with other features, of warps that share moments."""
    warps_m, warps_n = 1 if tiles <= 3 else 2 if tiles <= 6 else 4, 1
    while cdiv(tiles, warps_m) * cdiv(steps, warps_n) > MOST_SHARED and warps_m * warps_n < warps:
        warps_n *= 2
    return warps_m, warps_n


def _fragment_floats(warps: int, tiles: int, steps: int, parts: int, own: bool) -> int:
    """FragmentMemory: coefficients, two tiles of features and edges; the sums of ``parts`` warps of each moment, which
    take the place of the others unless each warp has its ``own`` moments."""
    stride = (cdiv(8 * steps, 4) | 1) * 4
    buffers = 16 * tiles * (8 * steps + 2) + 16 * warps * (stride + 8)
    sums = 32 * (4 * tiles * steps * parts + warps * (2 * tiles + 2))
    return buffers + sums if own else max(buffers + 256 * tiles * warps, sums)


def _fragment_tile(warps: int, blocks: int, tiles: int, steps: int, own: bool) -> FragmentTile | None:
    warps_m, warps_n = shares_of(tiles, steps, warps)
    moments = tiles * steps if own else cdiv(tiles, warps_m) * cdiv(steps, warps_n)
    size = 4 * _fragment_floats(warps, tiles, steps, warps if own else warps // (warps_m * warps_n), own)
    warps_n = 0 if own else warps_n
    registers = min(255, 2048 // (warps * blocks) // 8 * 8) - OTHER_REGISTERS
    left = registers - 6 * tiles - (0 if own else 4 * moments)  # own moments are in registers while no row is
    flight = next((count for count in (8, 4, 2, 1) if 2 * tiles * count <= left), 0)
    if own and 4 * (moments + tiles + steps) > registers:
        return None
    if not flight or moments > MOST_OF_LANE or blocks * (size + RESERVED) > SM_SHARED:
        return None
    return FragmentTile(warps, blocks, tiles, steps, warps_n, flight, size, 4 * tiles * steps + 2 * tiles + 2)


def gather_tile_of(domains: int, width: int, vector: int = 1) -> GatherTile | None:
    """None if the tiles of points do not fit in a block's shared memory. A load has ``vector`` domains."""
    if not 1 <= domains <= MOST_DOMAINS or width < 1:
        return None
    tiles, steps, warps = cdiv(domains, 16), cdiv(width, 8), UPDATING
    warps_m, warps_n = shares_of(tiles, steps, warps)
    own = tiles * steps <= MOST_OF_LANE
    # The number of points at a time whose eight rows fit in registers.
    shares = ((lanes, cdiv(domains, vector * lanes)) for lanes in (4, 8, 16, 32))
    lanes, loads = next(share for share in shares if 8 * vector * share[1] <= ROWS_OF_LANE)
    served = 2 if tiles > 5 and not own else 1
    parts = warps if own else warps // (warps_m * warps_n)
    floats, slots = 8 + _fragment_floats(warps, tiles, steps, parts, own), 4 * tiles * steps
    for stages in (2, 1):
        size = 4 * (floats + warps * stages * (4 + 8 * (16 * tiles + 4)))
        if size + RESERVED <= SM_SHARED:
            numbers = (warps, served, tiles, steps, 0 if own else warps_n, stages, lanes, loads, size)
            return GatherTile(*numbers, slots + 2 * tiles + 2)
    return None


def gathers(domains: int, width: int, vector: int, warps_an_sm: int) -> bool:
    """True where k06 takes less time than k04, as measured on an H200. With few points k04 has more warps; with few
    domains, or few features and rows that are not aligned, it needs fewer instructions. ``warps_an_sm`` as for k04.
    """
    tiles, steps = cdiv(domains, 16), cdiv(width, 8)
    if tiles * steps > MOST_OF_LANE or (tiles <= 3 and steps >= 5):
        return tiles <= 4 or warps_an_sm > MANY_WARPS
    if tiles <= 2:
        return tiles == 1 and MANY_WARPS < warps_an_sm <= MOST_FEW
    return warps_an_sm > MANY_WARPS and (steps > 1 or vector == 4 or warps_an_sm <= MOST_WARPS)
