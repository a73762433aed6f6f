"""The geometry of kernels with 16-byte accesses along dimension 0: several rows form a line of whole 16-byte packs."""

from __future__ import annotations

import math
from typing import NamedTuple

from warpwise.operation import cdiv

PACK, THREADS = 16, 256  # bytes of an access; threads of a block, at most
BLOCKS_AN_SM = 4


class Lines(NamedTuple):
    """``lines`` of ``packs``, each ``fold`` rows; ``tiles`` × ``parts`` blocks of ``width`` × ``height`` threads."""

    fold: int
    packs: int
    lines: int
    tiles: int
    parts: int
    width: int
    height: int


def lines_of(
    columns: int, length: int, itemsize: int, sms: int, width: int, batch: int, whole: int = 0,
    blocks_an_sm: int = BLOCKS_AN_SM,
) -> Lines:  # fmt: skip
    """``batch`` lines of a thread at once, ``width`` packs of a tile; up to ``whole`` packs are one tile."""
    fold = PACK // math.gcd(PACK, columns * itemsize)  # rows whose bytes are whole packs
    packs, lines = fold * columns * itemsize // PACK, cdiv(length, fold)
    tiles = 1 if packs <= whole else cdiv(packs, width)
    width = cdiv(packs, tiles)
    height = THREADS // width
    batches = cdiv(lines, batch * height)
    most = max(1, min(blocks_an_sm * sms // tiles, lines // (batch * height)))
    return Lines(fold, packs, lines, tiles, cdiv(batches, cdiv(batches, most)), width, height)
