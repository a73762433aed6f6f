"""The launcher of k26: the slices of tiles that fill no round dealt evenly to all clusters, then whole tiles as k20."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops._tickets import tickets
from warpwise.ops.matmul._hopper import BETWEEN, CUTS, DEPTH, Cut, deferred_stores, named
from warpwise.ops.matmul._shared import HERE, sizes
from warpwise.ops.matmul._skinny import laid_out

EVEN = cuda.load(HERE / "k26_even_shares.cu")
FORM = re.compile(r"(\w+?)_t(\d+)_p(\d+)_e(\d+)")  # a cut of k20, tiles, parts, edge
# Measured on an H200. Clocks for an element of sums: to leave it, with the start of another piece, and to add it to an
# owner's; clocks that sharing costs at all; times as long that slices take at many different depths, read from DRAM then.
LEAVING, ADDING, SHARING, SCATTERED = 0.14, 0.08, 9500, 1.4
SURE, ROUGH = 1.005, 1.15  # what sharing must gain: behind it two rounds hide when shares end, fewer do not
SNAP = 3  # slices: the boundary of a share in a row lies at a tile's if it is as near as this
MOST_PARTS = 16


class Shares(NamedTuple):
    """A configuration of k26: the cut of k20, how many tiles of a cluster all clusters share, and how.

    ``parts`` = 0: their slices lie in a row, and ``edge`` is the fewest worth a piece of their own. Else each tile has
    an owner, with its first ``edge`` slices, and ``parts`` - 1 parts more.
    """

    cut: Cut
    tiles: int
    parts: int = 0
    edge: int = SNAP

    @property
    def name(self) -> str:
        return f"{self.cut.name}_t{self.tiles}_p{self.parts}_e{self.edge}"

    def fits(self, tiles: int, slices: int, clusters: int) -> bool:
        """Whether C of ``tiles``, each ``slices`` deep, can be shared so by ``clusters``."""
        if self.tiles > tiles or self.tiles * slices >= 1 << 31:
            return False
        helpers_enough = self.parts == 2 or self.parts * self.tiles <= clusters
        side_by_side = self.parts > 1 and 0 < self.tiles < clusters and 0 < self.edge <= slices - self.parts + 1
        return not self.parts or (side_by_side and helpers_enough)

    def slices(self, slices: int, clusters: int, leaving: float, adding: float) -> float:
        """What the busiest cluster does before whole tiles, in slices; a tile has ``slices``, and so much leaving and adding take."""
        if not self.parts:
            share = self.tiles * slices / clusters
            return share * SCATTERED + leaving + adding * cdiv(slices - 1, max(1, int(share)))
        helped = turns(self.tiles, clusters, self.parts) * (cdiv(slices - self.edge, self.parts - 1) + leaving)
        return max(self.edge + adding * (self.parts - 1), helped)

    def clocks(self, m: int, n: int, k: int, processors: int) -> float:
        """About what the busiest SM takes, in the terms of ``Cut.clocks``."""
        slices, clusters = cdiv(k, DEPTH), max(1, processors // self.cut.blocks)
        elements = self.cut.rows * self.cut.columns
        a_slice, ends = slice_clocks(self.cut, processors), self.cut.clocks(1, 1, 0, processors)
        shared = self.slices(slices, clusters, LEAVING * elements / a_slice, ADDING * elements / a_slice)
        rounds = (math.prod(self.cut.tiles(m, n)) - self.tiles) // clusters
        clocks = (shared + rounds * slices) * a_slice + rounds * BETWEEN + SHARING + ends
        return clocks * (SURE if rounds > 1 else ROUGH)


def slice_clocks(cut: Cut, processors: int) -> float:
    return (cut.clocks(1, 1, 1000 * DEPTH, processors) - cut.clocks(1, 1, 0, processors)) / 1000


def turns(tiles: int, clusters: int, parts: int) -> int:
    """Tiles that a cluster without a tile of its own helps with, one after another."""
    return cdiv(tiles, min(clusters - tiles, tiles * (parts - 1)))


def shares(cut: Cut, m: int, n: int, k: int, processors: int) -> Iterator[Shares]:
    """The ways to share what fills no round: in a row, and side by side with each number of parts."""
    tiles, slices, clusters = math.prod(cut.tiles(m, n)), cdiv(k, DEPTH), max(1, processors // cut.blocks)
    left = tiles % clusters
    if not left or left * slices >= 1 << 31:
        return
    yield Shares(cut, left)
    scale = cut.rows * cut.columns / slice_clocks(cut, processors)
    for parts in range(2, MOST_PARTS + 1):
        if (parts > 2 and parts * left > clusters) or parts > slices:
            return
        others, often = parts - 1, turns(left, clusters, parts)
        # Owner and helper end together: edge + others * adding = often * ((slices - edge) / others + leaving).
        edge = round((often * (slices / others + LEAVING * scale) - others * ADDING * scale) / (1 + often / others))
        yield Shares(cut, left, parts, max(1, min(edge, slices - others)))


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, processors: int) -> tuple[str, ...]:
    """Names of configurations, k20's for whole tiles, the fastest as ``clocks`` has it first."""
    found: list[Cut | Shares] = [*CUTS]
    for cut in reversed(CUTS):  # estimated alike, 128 x 128 comes before 64 x 256: it was 4 to 12 % faster
        found += shares(cut, m, n, k, processors)
    return tuple(each.name for each in sorted(found, key=lambda each: each.clocks(m, n, k, processors)))


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """The likeliest of them."""
    return ranked(*sizes(a, b), multiprocessors(a))[:12]


def pays(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether sharing tiles is estimated to be faster than whole tiles alone."""
    return "_t" in ranked(*sizes(a, b), multiprocessors(a))[0]


def kernel(dtype: torch.dtype, cut: Cut, a_across: bool, b_across: bool) -> str:
    """The C++ name of k26 cut so, for operands whose rows run along K or, across, along M and N."""
    return f"matmul_even_shares<{cut.parameters(dtype, a_across, b_across)}>"


def parsed(config: str) -> Shares:
    """Raises ``ValueError`` for a name that is none of a configuration with shares."""
    if not (found := FORM.fullmatch(config)):
        raise ValueError(f"matmul: expected a configuration of the form {FORM.pattern}, got {config!r}")
    return Shares(named(found[1]), int(found[2]), int(found[3]), int(found[4]))


def even_shares(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    processors = multiprocessors(a)
    config = config or ranked(m, n, k, processors)[0]
    if "_t" not in config:
        return deferred_stores(c, a, b, config)
    found = parsed(config)
    cut, slices, clusters = found.cut, cdiv(k, DEPTH), max(1, processors // found.cut.blocks)
    rows, columns = cut.tiles(m, n)
    if not found.fits(rows * columns, slices, clusters):
        raise ValueError(
            f"matmul: expected a configuration for shapes {tuple(a.shape)} and {tuple(b.shape)}, got {config}"
        )
    (read_a, a_across), (read_b, b_by_columns) = laid_out(a), laid_out(b)
    grid = cut.grid(clusters)
    sums = c.new_empty(grid[0] * cut.rows * cut.columns, dtype=torch.float32)
    flags = tickets(a, grid[0] * cut.warpgroups)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (read_a, read_b, c)]
    group = cut.group(rows, clusters)
    launcher = EVEN[kernel(a.dtype, cut, a_across, not b_by_columns)][grid]
    launcher(*maps, sums, flags, slices, rows, columns, group, found.tiles, found.parts, found.edge)
