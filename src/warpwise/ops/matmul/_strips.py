"""The launcher of k28: C in strips of 256 and 248 rows, so that tiles fill whole rounds of all SMs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops.matmul._hopper import boxes, shared_bytes
from warpwise.ops.matmul._shared import HERE, sizes
from warpwise.ops.matmul._skinny import addressable, copied, laid_out

STRIPS = cuda.load(HERE / "k28_strips.cu")
WIDE, NARROW, FLAT = 256, 248, 128  # rows of a strip
BAND = 128  # columns of a tile, 256 in the flat strip
STAGES = 4
PAYS = 0.995  # of the rows that the busiest SM has in whole tiles
FORM = re.compile(rf"{WIDE}x{BAND}x64_s{STAGES}_n(\d+)(f?)")


class Strips(NamedTuple):
    """A configuration of k28: ``strips`` strips of 256 or 248 rows and, with ``flat``, one of 128."""

    strips: int
    flat: bool = False

    @property
    def name(self) -> str:
        return f"{WIDE}x{BAND}x64_s{STAGES}_n{self.strips}{'f' * self.flat}"

    def wide(self, m: int) -> int | None:
        """How many strips must be of 256 rows for all to reach m, or None if none of 248 would not do."""
        left = max(0, cdiv(m - FLAT * self.flat - NARROW * self.strips, WIDE - NARROW))
        return left if left <= self.strips else None

    def tiles(self, n: int) -> int:
        return cdiv(n, BAND) * self.strips + cdiv(n, 2 * BAND) * self.flat

    def rows(self, m: int, n: int, processors: int) -> float:
        """Those that the busiest SM multiplies a band by, about."""
        return cdiv(self.tiles(n), processors) * (m - FLAT * self.flat) / self.strips


def shorter(m: int, n: int, processors: int) -> Iterator[Strips]:
    """Ways to cut that leave the busiest SM fewer rows than tiles of 256 x 128 do."""
    whole = Strips(cdiv(m, WIDE))
    most = PAYS * whole.rows(WIDE * whole.strips, n, processors)
    for flat in (False, True):
        left = cdiv(m, 8) * 8 - FLAT * flat
        for count in range(max(1, cdiv(left, WIDE)), left // NARROW + 1):
            found = Strips(count, flat)
            if found.rows(m, n, processors) < most:
                yield found


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, processors: int) -> tuple[str, ...]:
    """Names of such, the shortest first."""
    found = sorted(shorter(m, n, processors), key=lambda each: each.rows(m, n, processors))
    return tuple(each.name for each in found[:3])


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Those, or strips of 256 rows where no way is shorter."""
    m, n, _ = sizes(a, b)
    return ranked(m, n, multiprocessors(a)) or (Strips(max(1, cdiv(m, WIDE))).name,)


def pays(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether strips shorten what the busiest SM does, by rows that need not be copied."""
    m, n, _ = sizes(a, b)
    return bool(ranked(m, n, multiprocessors(a))) and addressable(a) is not None


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """k20's; an a with k along its rows, at any of which a strip may begin."""
    if reason := boxes(a, b):
        return reason
    _, _, k = sizes(a, b)
    if addressable(a) is None and k % 8:
        return f"takes an a whose rows begin on 16 bytes, not k = {k} with strides {a.stride()}"
    return None


def parsed(config: str) -> Strips:
    """Raises ``ValueError`` for a name that is none of a configuration."""
    if not (found := FORM.fullmatch(config)):
        raise ValueError(f"matmul: expected a configuration of the form {FORM.pattern}, got {config!r}")
    return Strips(int(found[1]), bool(found[2]))


def strips(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    processors = multiprocessors(a)
    found = parsed(config or configs(a, b)[0])
    wide = found.wide(m)
    if wide is None:
        raise ValueError(f"matmul: expected a configuration for {m} rows, got {config}")
    rows, (read_b, b_by_columns) = addressable(a), laid_out(b)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (copied(a) if rows is None else rows, read_b, c)]
    bands, flats = cdiv(n, BAND), cdiv(n, 2 * BAND) * found.flat
    tiles = found.tiles(n)
    blocks = cdiv(tiles, cdiv(tiles, processors))  # the fewest that need no more rounds
    # Blocks in flight cover about a square of C: so many bands go together.
    group = min(max(1, round((blocks * WIDE / BAND) ** 0.5)), bands)
    kernel = STRIPS[f"matmul_strips<{cuda.ctype(a.dtype)}, {str(not b_by_columns).lower()}>"]
    shared = shared_bytes(BAND, WIDE, STAGES, 2)
    kernel[blocks, 384, shared](*maps, k, bands, found.strips, group, wide, flats)
