"""Tiles of k07: which warps have which points and moments, and which of its variants takes the least time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warpwise.device.limits import RESERVED, SM_SHARED
from warpwise.operation import cdiv
from warpwise.ops.potts_em_step.tiles import MOST_DOMAINS, MOST_OF_LANE, MOST_WARPS

REGISTERS = 65536  # of an SM
MOST_KEPT = 21  # tiles of 16 domains x 8 features that a warp which shares moments keeps in registers
OTHER_REGISTERS = 128  # of a lane, beside the moments of its warp's own points that it keeps
MANY_WARPS = 128  # of points for each SM, from which a warp has 32 points


class SelectionTile(NamedTuple):
    """k07: ``warps`` of a block, resident ``blocks`` per SM, ``groups`` of eight points of a warp, ``tiles`` of 16
    domains, ``steps`` of 8 words of features, tiles of ``features`` of the moments, ``warps_m`` with other domains and
    ``warps_n`` with other features (0 if a warp has all moments of its points), edges in ``flight``. Scores are
    computed ``late``, after the sums of neighbours; a tile ``defers`` its moments to the next one; the ``rests`` of
    coefficients are in shared memory; a warp ``keeps`` moments in registers. Bytes of shared memory of a block, and
    sums of a lane."""

    warps: int
    blocks: int
    groups: int
    tiles: int
    steps: int
    features: int
    warps_m: int
    warps_n: int
    flight: int
    late: bool
    defers: bool
    rests: bool
    keeps: bool
    bytes: int
    slots: int


def of_last_vector(domains: int, columns: int) -> int:
    """LAST of RowLanes in row_lanes.cuh, for rows of q with ``columns``, of which those from ``domains`` on are zeros.
    A vector has four domains in the last tile of an odd number of tiles, else eight."""
    vector = 4 if cdiv(domains, 16) % 2 else 8
    return domains % vector if columns < cdiv(domains, vector) * vector else 0


def turn_of(tiles: int, pitch: int) -> int:
    """TURN of RowLanes in row_lanes.cuh, for ``pitch`` elements from row to row of q and ``tiles`` of 16 domains."""
    return 1 if pitch % 32 == 0 and tiles > 1 else 2 if pitch % 16 == 0 and tiles > 3 else 0


class SelectionChoice(NamedTuple):
    """The fields of a SelectionTile of k07 that are chosen by times on an H200."""

    warps: int
    blocks: int
    groups: int
    flight: int
    late: bool = False
    defers: bool = False
    keeps: bool = False
    own: bool = False  # also more than MOST_OF_LANE tiles of moments are those of a warp's own points


class Row(NamedTuple):
    """A row of features: ``words`` of four bytes from row to row, and features ``in_word``, 1 for float32 and 2 for
    bfloat16."""

    words: int
    in_word: int = 1


def selection_tile(domains: int, row: Row, choice: SelectionChoice, rests: bool) -> SelectionTile | None:
    """None if registers or shared memory do not suffice."""
    warps, blocks, groups, flight, late, defers, keeps, more = choice
    tiles, steps = cdiv(domains, 16), cdiv(row.words, 8)
    features = cdiv(row.in_word * cdiv(row.words, 4) * 4 + 1, 8)  # tiles of eight columns, with that of ones
    stride = (cdiv(8 * steps, 4) | 1) * 4 if row.in_word == 1 else 4 * (features - 1)
    own = more or tiles * features <= MOST_OF_LANE
    shares = ((m, n) for m in (1, 2, 4) for n in (8, 4, 2, 1) if warps % (m * n) == 0 and n < 2 * features)
    fits = (s for s in shares if not keeps or cdiv(tiles, s[0]) * cdiv(features, s[1]) <= MOST_KEPT)
    if (share := (1, 1) if own else next(fits, None)) is None or (groups > 2 and not own):
        return None
    if own and keeps and 4 * tiles * features + OTHER_REGISTERS > min(255, REGISTERS // (32 * warps * blocks) & ~7):
        return None
    warps_m, warps_n = share
    parts = warps if own else warps // (warps_m * warps_n)
    buffers = (
        tiles * steps * (256 if rests else 128)
        + 32 * tiles
        + 8 * groups * warps * ((2 if own or not defers else 3) * stride + 16)
    )
    sums, others = 32 * 4 * tiles * features * parts, 64 * warps
    shared = 0 if own else 256 * tiles * warps
    floats = max(buffers + shared, sums + others) if keeps and not own else buffers + shared + sums + others
    size = 4 * floats
    if blocks * (size + RESERVED) > SM_SHARED:
        return None
    slots = 4 * tiles * features + 2
    return SelectionTile(
        warps,
        blocks,
        groups,
        tiles,
        steps,
        features,
        warps_m,
        0 if own else warps_n,
        flight,
        late,
        defers,
        rests,
        keeps,
        size,
        slots,
    )


# The choices by the number of tiles of 16 domains, and for any number: the fastest first.
_SHARED = SelectionChoice(4, 2, 2, 8, late=True, defers=True), SelectionChoice(8, 1, 2, 4, keeps=True)
_OWN, _LATE = SelectionChoice(8, 1, 2, 8, own=True), SelectionChoice(8, 1, 2, 8, late=True, own=True)
SELECTION_CHOICES = {
    1: (SelectionChoice(10, 2, 2, 8),),
    2: (
        SelectionChoice(6, 2, 2, 8, keeps=True, own=True),
        SelectionChoice(6, 2, 2, 8),
        SelectionChoice(8, 1, 4, 8, keeps=True, own=True),
    ),
    3: (SelectionChoice(6, 2, 2, 8),),
    4: (_OWN,),
    5: (_OWN,),
    6: (_OWN, *_SHARED),
    7: (_LATE, *_SHARED),
    8: (_LATE, *_SHARED),
}
# More than MANY_WARPS.
SELECTION_MANY = {2: (SelectionChoice(6, 2, 4, 8),)}
SELECTION_ANY = (
    SelectionChoice(4, 2, 2, 8, late=True, defers=True),
    SelectionChoice(8, 1, 2, 8, keeps=True),
    SelectionChoice(8, 1, 2, 4, keeps=True),
    SelectionChoice(8, 1, 1, 4, late=True, keeps=True),
    SelectionChoice(4, 1, 1, 4, late=True, keeps=True),
)
# The choices by the number of warps of eight points per SM up to which all points of a colour are updated at once.
SELECTION_FEW = (
    (4, SelectionChoice(4, 1, 1, 8)),
    (8, SelectionChoice(8, 1, 1, 8)),
    (16, SelectionChoice(8, 1, 2, 8)),
)
# EXACT_CHOICES and EXACT_FEW: as SELECTION_CHOICES and SELECTION_FEW, for features in bfloat16. With few points, the
# second choice applies if the moments of a warp's own points do not fit in shared memory.
_WIDE, _KEPT = SelectionChoice(8, 1, 4, 8, own=True), SelectionChoice(8, 1, 2, 4, keeps=True)
EXACT_CHOICES = {
    1: (SelectionChoice(10, 2, 4, 8), SelectionChoice(10, 2, 2, 8), _WIDE, _OWN),
    2: (SelectionChoice(12, 1, 4, 8), SelectionChoice(8, 1, 4, 8), SelectionChoice(6, 2, 2, 8), _OWN),
    3: (_WIDE, SelectionChoice(6, 2, 2, 8), _OWN, SelectionChoice(8, 1, 2, 8)),
    4: (_WIDE, _OWN, SelectionChoice(8, 1, 2, 8), _KEPT),
    5: (_OWN, _KEPT),
    6: (_OWN, _KEPT),
    7: (_OWN, SelectionChoice(8, 1, 2, 8, late=True, keeps=True)),
    8: (_LATE, SelectionChoice(8, 1, 2, 8, late=True, keeps=True)),
}
EXACT_FEW = (
    (4, SelectionChoice(4, 1, 1, 8, own=True), SelectionChoice(4, 1, 1, 4, keeps=True)),
    (8, SelectionChoice(8, 1, 1, 8, own=True), SelectionChoice(8, 1, 1, 4, keeps=True)),
    (16, SelectionChoice(8, 1, 2, 8, own=True), _KEPT),
)
# The same for 17 to 24 warps, where registers suffice: for up to MOST_OF_TWELVE tiles of 16 domains.
EXACT_TWELVE, MOST_OF_TWELVE = (SelectionChoice(12, 1, 2, 8, own=True), SelectionChoice(12, 1, 2, 8)), 5
# For 33 to 64 domains and colours that 8 warps of 32 points process in two rounds, and 12 warps of 16 points too.
EXACT_TWICE, TWICE = EXACT_TWELVE[0], range(33, 49)


def selection_tile_of(domains: int, row: Row, warps_an_sm: int = MOST_WARPS) -> SelectionTile | None:
    """None if the moments of a block do not fit in its registers, or tiles of points in its shared memory.
    ``warps_an_sm``: as for k04, of eight points."""
    if not 1 <= domains <= MOST_DOMAINS or row.words < 1:
        return None
    for choice in _choices(cdiv(domains, 16), row.in_word == 2, warps_an_sm):
        for rests in (True, False) if row.in_word == 1 else (True,):  # two numbers of bfloat16 are in shared memory
            if (tile := selection_tile(domains, row, choice, rests)) is not None:
                return tile
    return None


def _choices(tiles: int, exact: bool, warps_an_sm: int) -> Iterator[SelectionChoice]:
    """The fastest first. ``tiles``: of 16 domains. ``exact``: features are bfloat16."""
    yield from next((few for most, *few in (EXACT_FEW if exact else SELECTION_FEW) if warps_an_sm <= most), ())
    if exact and tiles <= MOST_OF_TWELVE and EXACT_FEW[-1][0] < warps_an_sm <= 24:
        yield from EXACT_TWELVE
    if exact and tiles in (3, 4) and warps_an_sm in TWICE:
        yield EXACT_TWICE
    if warps_an_sm > MANY_WARPS and not exact:
        yield from SELECTION_MANY.get(tiles, ())
    yield from (EXACT_CHOICES if exact else SELECTION_CHOICES)[tiles]
    yield from SELECTION_ANY
